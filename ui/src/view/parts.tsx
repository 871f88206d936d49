/** Small parts that several views use. */

import type { ComponentChildren } from "preact";
import type { Tone } from "../model/job";
import { clock } from "../model/format";
import { now } from "../store";

/** A phase: the colour never says more than the text. */
export function Phase({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return (
    <span class={`phase ${tone}`}>
      <span class="dot" aria-hidden="true" />
      {children}
    </span>
  );
}

export function Time({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="faint">–</span>;
  return (
    <time dateTime={at} title={at}>
      {clock(at, now.value)}
    </time>
  );
}

/** A panel with a heading. */
export function Panel({ title, aside, children, id }: { title: string; aside?: ComponentChildren; children: ComponentChildren; id: string }) {
  return (
    <section class="panel" aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {aside && <div class="aside">{aside}</div>}
      </header>
      {children}
    </section>
  );
}

/** Names and values. */
export function Facts({ facts }: { facts: [string, ComponentChildren][] }) {
  const known = facts.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return (
    <dl class="facts">
      {known.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

/** What may be wider than the page, a table for one: it scrolls on its own, by keyboard too. */
export function Wide({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <div class="wide" tabIndex={0} role="group" aria-label={label}>
      {children}
    </div>
  );
}

/** A sentence of the server: what stands between backticks is code. */
export function Said({ text }: { text: string }) {
  return <>{text.split("`").map((part, i) => (i % 2 ? <code key={i}>{part}</code> : part))}</>;
}
