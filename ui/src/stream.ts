/** Server-Sent Events through fetch: EventSource cannot send the token in a header. */

import type { Change } from "./types";

/** Splits what arrives into messages. A message ends with an empty line; lines that begin with a colon are for nobody. */
export class Messages {
  private rest = "";

  push(text: string): string[] {
    const parts = (this.rest + text).split("\n\n");
    this.rest = parts.pop() ?? "";
    return parts.map(data).filter((found) => found !== "");
  }
}

function data(message: string): string {
  const lines = message.split("\n").filter((line) => line.startsWith("data: "));
  return lines.map((line) => line.slice("data: ".length)).join("\n");
}

/** Calls `take` for each change until the server ends the answer. */
export async function follow(body: ReadableStream<Uint8Array>, take: (change: Change) => void, alive: () => void): Promise<void> {
  const messages = new Messages();
  const reader = body.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    for (const text of messages.push(value)) take(JSON.parse(text) as Change);
  }
}
