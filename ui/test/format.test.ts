import { describe, expect, it } from "vitest";
import { STEPS, between, bytes, clock, count, duration, last, short } from "../src/model/format";

describe("numbers", () => {
  it.each([
    [0, "0"],
    [7, "7"],
    [7.25, "7.25"],
    [999, "999"],
    [999.6, "1k"],
    [5980.4, "5.98k"],
    [18204, "18.2k"],
    [7_200_000, "7.2M"],
    [-1500, "−1.5k"],
    [1e15, "1000T"],
    [null, "–"],
  ])("%s rows are %s", (value, text) => expect(count(value)).toBe(text));

  it.each([
    [0, "0 B"],
    [1023, "1023 B"],
    [1024, "1.0 KiB"],
    [203_923_456, "194 MiB"],
    [undefined, "–"],
  ])("%s bytes are %s", (value, text) => expect(bytes(value)).toBe(text));
});

describe("times", () => {
  it.each([
    [0, "0 s"],
    [3.24, "3.2 s"],
    [9.96, "10 s"],
    [59.6, "1 min 00 s"],
    [185, "3 min 05 s"],
    [3599.7, "1 h 00 min"],
    [25_320, "7 h 02 min"],
    [90_000, "1 d 1 h"],
    [-5, "0 s"],
    [Number.NaN, "–"],
  ])("%s seconds are %s", (value, text) => expect(duration(value)).toBe(text));

  it.each([
    [0.25, "0.25 s"],
    [600, "10 min"],
    [5400, "1.5 h"],
    [172_800, "2 d"],
  ])("%s seconds are %s on an axis", (value, text) => expect(short(value)).toBe(text));

  it("names the day unless it is today", () => {
    const at = new Date(2026, 10, 26, 3, 4, 5);
    expect(clock(at.toISOString(), at.getTime())).toBe("03:04:05");
    expect(clock(at.toISOString(), at.getTime() + 2 * 86_400_000)).toBe("2026-11-26 03:04:05");
    expect(clock(null, 0)).toBe("–");
  });

  it("measures from one time to another", () => {
    expect(between("2026-11-26T03:00:00Z", "2026-11-26T03:01:30Z")).toBe(90);
    expect(between(undefined, "2026-11-26T03:01:30Z")).toBeNull();
    expect(between("nonsense", 0)).toBeNull();
  });
});

it("shows the last part of a location", () => expect(last("s3a://a/b/drain-5-8/")).toBe("drain-5-8"));

describe("the ticks of an axis", () => {
  it.each([
    ["rows", STEPS.count, count],
    ["bytes", STEPS.bytes, bytes],
    ["durations", STEPS.duration, short],
  ] as [string, number[], (value: number) => string][])("of %s have a label each", (_, steps, label) => {
    for (const step of steps) {
      const labels = [1, 2, 3, 4, 5].map((n) => label(n * step));
      expect(new Set(labels).size, `${step}: ${labels.join(", ")}`).toBe(5);
    }
  });
});
