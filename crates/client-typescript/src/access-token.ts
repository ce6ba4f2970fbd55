/** The access token that a client sends with every call. The text of the token is in no log and no error. */
import { readFileSync } from "node:fs";
import type { ConnectionOptions } from "./connection.js";
import { InvalidArgumentError } from "./errors.js";

export class AccessToken {
  readonly #file: string | undefined;
  #token: string | undefined;

  /** Reads the file, which must have a token. */
  constructor({ accessToken, accessTokenFile }: Pick<ConnectionOptions, "accessToken" | "accessTokenFile">) {
    this.#file = accessTokenFile;
    if (accessToken !== undefined) {
      this.#token = tokenIn(accessToken);
      if (this.#token === undefined) throw new InvalidArgumentError("accessToken has no access token");
    }
    if (accessTokenFile === undefined) return;
    this.readAgain();
    if (this.#token === undefined) {
      throw new InvalidArgumentError(`accessTokenFile: ${accessTokenFile} has no access token: write the token, or Authorization: Bearer TOKEN`);
    }
  }

  /** Whether a later read may return another token. */
  get mayChange(): boolean {
    return this.#file !== undefined;
  }

  /** The value of the header `Authorization`. */
  get header(): string | undefined {
    return this.#token === undefined ? undefined : `Bearer ${this.#token}`;
  }

  /** Reads the file. While it has no token, the last one stays. */
  readAgain(): void {
    if (this.#file === undefined) return;
    try {
      this.#token = tokenIn(readFileSync(this.#file, "utf8")) ?? this.#token;
    } catch {
      // Another program replaces the file.
    }
  }
}

/** Returns the token in a text: alone, or as the header `Authorization: Bearer TOKEN`. Pure. */
export function tokenIn(text: string): string | undefined {
  const token = text.trim().replace(/^authorization:\s*bearer\s+/i, "");
  return /^[\x21-\x7e]+$/.test(token) && !token.toLowerCase().startsWith("authorization:") ? token : undefined;
}
