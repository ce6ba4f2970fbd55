/**
 * Groups: members, each with a value.
 *
 * A membership is the ephemeral znode `/groups/GROUP/SESSION`, so it ends with the session. A session is a member at most
 * once.
 */
import type { StopSignal } from "./abort.js";
import { header, json } from "./answer.js";
import { answerOf, type Calls } from "./calls.js";
import { get } from "./call.js";
import { InvalidArgumentError, isRejectedWith, isUncertain, LostError, UnexpectedResponseError } from "./errors.js";
import type { Session } from "./session.js";
import type { Sessions } from "./sessions.js";
import { checkedName, target, treePath } from "./target.js";
import { Watcher, type TreeChange } from "./watcher.js";

/** The members of one page of a list. */
const PAGE = 1_000;

/** The value of each member by its session. */
export type GroupMembers = ReadonlyMap<string, string>;

export class Group {
  readonly #sessions: Sessions;
  readonly #directory: string;

  /** @internal */
  constructor(
    sessions: Sessions,
    readonly name: string,
  ) {
    this.#sessions = sessions;
    this.#directory = `/groups/${checkedName(name)}`;
  }

  /** Joins with a value, such as an address. Joining again in the session of a client replaces the value. */
  async join(value = ""): Promise<Membership> {
    return await Membership.join(this.#sessions, this.#directory, value);
  }

  /** Returns the members. Sends one call for each member. */
  async members(): Promise<GroupMembers> {
    return await membersOf(this.#sessions.calls, this.#directory);
  }

  /** Iterates the members, then the members after each change. */
  watch(): GroupWatcher {
    return new GroupWatcher(this.#sessions, this.#directory);
  }
}

/** A membership of a group, which ends with its session. */
export class Membership {
  readonly #session: Session;
  readonly #path: string;
  readonly #unuse: () => void;
  #isOver = false;

  private constructor(session: Session, path: string) {
    this.#session = session;
    this.#path = path;
    this.#unuse = session.use();
  }

  /** @internal */
  static async join(sessions: Sessions, directory: string, value: string): Promise<Membership> {
    for (let isLast = false; ; isLast = true) {
      const session = await sessions.live(undefined);
      const membership = new Membership(session, `${directory}/${session.name}`);
      try {
        await membership.#write(value);
        return membership;
      } catch (error) {
        if (isUncertain(error)) membership.leave().catch(() => {});
        else membership.#unuse();
        if (!(error instanceof LostError)) throw error;
        // The session ended while it was idle, so the call was not executed.
        session.end({ cause: "session-ended" });
        if (isLast || !sessions.mayReplace) throw error;
      }
    }
  }

  /** The name of the member's session. */
  get session(): string {
    return this.#session.name;
  }

  /** The loss, or undefined while the session certainly lives. After a loss, join again. */
  get lost(): LostError | undefined {
    const loss = this.#isOver ? ({ cause: "session-ended", reason: "the member has left" } as const) : this.#session.loss();
    return loss && new LostError(loss);
  }

  /** Throws a `LostError` unless the session certainly lives. */
  ensure(): void {
    const { lost } = this;
    if (lost !== undefined) throw lost;
  }

  /** Replaces the value. */
  async setValue(value: string): Promise<void> {
    this.ensure();
    await this.#write(value);
  }

  /** Leaves the group. If no node answers, the membership ends with the session. A repeated call does nothing. */
  async leave(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    try {
      if (this.#session.loss() === undefined) await this.#change({ then: [{ delete: this.#path }] });
    } finally {
      this.#unuse();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.leave();
  }

  /** Creates the znode or replaces its data. */
  async #write(value: string): Promise<void> {
    const create = { create: this.#path, data: value, ephemeral: true, parents: true };
    const { results } = await this.#change({ then: [{ set: this.#path, data: value }], else: [create] });
    if (results.some(({ stat }) => stat?.kind !== "ephemeral")) {
      throw new InvalidArgumentError(`${this.#path} is not ephemeral, so it is not a membership`);
    }
  }

  /** Sends a transaction of the session, which has no effect after the end of the session. */
  async #change(transaction: { readonly then: readonly object[]; readonly else?: readonly object[] }): Promise<TransactionBody> {
    const session = this.#session;
    return await session.numberedCalls.send(async (request) => {
      const text = JSON.stringify({ ...transaction, if: [{ path: this.#path, exists: true }], session: session.name });
      // A number of a request may exceed 2^53, which JSON.stringify cannot write.
      const body = Buffer.from(`${text.slice(0, -1)},"request":${request}}`);
      const call = { method: "POST", target: "/v1/txn", copies: "harmless", body } as const;
      return json<TransactionBody>(answerOf(await session.deliverAt(call, "copied")).answer, { results: "array" });
    });
  }
}

interface TransactionBody {
  readonly results: readonly { readonly stat?: { readonly kind: string } }[];
}

/**
 * The members now, then after each change. After an `UnavailableError`, another call of `next` continues. A `LostError` is the
 * end of the client.
 */
export class GroupWatcher implements AsyncIterableIterator<GroupMembers> {
  readonly #sessions: Sessions;
  readonly #directory: string;
  readonly #watcher: Watcher;
  #members: GroupMembers | undefined;
  #isOver = false;

  /** @internal */
  constructor(sessions: Sessions, directory: string) {
    this.#sessions = sessions;
    this.#directory = directory;
    this.#watcher = new Watcher(sessions, { prefix: `${directory}/` }, undefined);
  }

  async next(): Promise<IteratorResult<GroupMembers, undefined>> {
    let before = this.#members;
    if (before === undefined) {
      await this.#watcher.start();
      this.#members = await this.#all();
      return this.#isOver ? { done: true, value: undefined } : { done: false, value: this.#members };
    }
    for (;;) {
      const { value: change } = await this.#watcher.next();
      if (change === undefined) return { done: true, value: undefined };
      // After a failure, the next call reads all members.
      this.#members = undefined;
      const members = await this.#after(before, change);
      this.#members = members;
      if (!isEqual(before, members)) return { done: false, value: members };
      before = members;
    }
  }

  async return(): Promise<IteratorResult<GroupMembers, undefined>> {
    this.#isOver = true;
    await this.#watcher.return();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async #after(before: GroupMembers, change: TreeChange): Promise<GroupMembers> {
    if (change.kind === "gap") return await this.#all();
    const session = change.path.slice(this.#directory.length + 1);
    if (session.includes("/")) return before;
    const value = change.kind === "deleted" ? undefined : await this.#read((calls, stop) => valueOf(calls, change.path, stop));
    const members = new Map(before);
    if (value === undefined) members.delete(session);
    else members.set(session, value);
    return members;
  }

  async #all(): Promise<GroupMembers> {
    return await this.#read((calls, stop) => membersOf(calls, this.#directory, stop));
  }

  /** Reads after a node has answered the watcher. */
  async #read<T>(read: (calls: Calls, stop: StopSignal) => Promise<T>): Promise<T> {
    const { calls } = this.#sessions;
    return await this.#sessions.wait((stop) => calls.repeatPages(() => read(calls, stop), stop));
  }
}

function isEqual(a: GroupMembers, b: GroupMembers): boolean {
  return a.size === b.size && [...a].every(([session, value]) => b.get(session) === value);
}

async function membersOf(calls: Calls, directory: string, stop?: StopSignal): Promise<GroupMembers> {
  const members = new Map<string, string>();
  for (const session of await sessionsIn(calls, directory, stop)) {
    const value = await valueOf(calls, `${directory}/${session}`, stop);
    // A listed member may have left.
    if (value !== undefined) members.set(session, value);
  }
  return members;
}

interface ChildrenBody {
  readonly children: readonly { readonly name: string; readonly kind: string }[];
  readonly next_page_token?: string;
}

/** Lists the ephemeral children. Other children are directories of groups with longer names. */
async function sessionsIn(calls: Calls, directory: string, stop?: StopSignal): Promise<string[]> {
  const sessions: string[] = [];
  for (let token: string | undefined; ; ) {
    const path = target(treePath(directory), { children: true, limit: PAGE, page_token: token });
    const page: ChildrenBody | undefined = await unlessMissing(calls.json<ChildrenBody>(get(path), { children: "array" }, stop));
    if (page === undefined) return sessions;
    sessions.push(...page.children.filter(({ kind }) => kind === "ephemeral").map(({ name }) => name));
    token = page.next_page_token;
    if (token === undefined) return sessions;
  }
}

/** Reads the value of a member; undefined if the znode is no membership. */
async function valueOf(calls: Calls, path: string, stop?: StopSignal): Promise<string | undefined> {
  const answer = await unlessMissing(calls.answer(get(treePath(path)), stop));
  if (answer === undefined) return undefined;
  const kind = header(answer, "holdfast-kind");
  if (kind === undefined) throw new UnexpectedResponseError("a znode without a kind");
  return kind === "ephemeral" ? answer.body.toString("utf8") : undefined;
}

async function unlessMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  return await answer.catch((error: unknown) => {
    if (isRejectedWith(error, "not-found")) return undefined;
    throw error;
  });
}
