// What the modules of views look at when they are loaded. Views themselves are tested in a real browser (tests/ui).
Object.assign(globalThis, {
  matchMedia: () => ({ matches: false, addEventListener: () => {} }),
  location: { hash: "" },
});
