/** Server-sent events. Pure. */

export interface ServerEvent {
  readonly name: string;
  readonly data: string;
  readonly id: string | undefined;
}

/** Collects the bytes of a stream, and returns its events. */
export class EventParser {
  #rest = "";
  readonly #decoder = new TextDecoder();

  /** Returns the events that the bytes complete. Comments are no events. */
  push(bytes: Uint8Array): ServerEvent[] {
    const blocks = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split("\n\n");
    this.#rest = blocks.pop() ?? "";
    return blocks.flatMap((block) => eventOf(block) ?? []);
  }

  /** The number of characters that wait for the rest of their event. */
  get pending(): number {
    return this.#rest.length;
  }
}

function eventOf(block: string): ServerEvent | undefined {
  const field = (key: string): string | undefined => {
    const line = block.split("\n").find((line) => line.startsWith(`${key}:`));
    return line?.slice(key.length + 1).trimStart();
  };
  const name = field("event");
  return name === undefined ? undefined : { name, data: field("data") ?? "", id: field("id") };
}
