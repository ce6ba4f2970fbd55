/**
 * Which node a call tries first, and which nodes rest after a failure. Pure: every moment is an argument.
 *
 * Every answer names its node and the leader. Calls try the leader first, because another node would forward them. A
 * node that gave no answer rests for seconds: calls try the other nodes first.
 */

/** A node rests this long after its first failure; each further failure in sequence doubles the time. */
const REST_MIN = 1_000;
const REST_MAX = 10_000;
/** Another node gets a copy of a call after this time without an answer. */
export const COPY_AFTER = 300;
/** The same while most calls take that long: the cluster is slow, and copies would make it slower. */
const COPY_AFTER_OF_SLOW_CLUSTER = 1_000;
/** An answer without a copy earns one credit, a copy costs this many. Slow clusters thus get one copy for ten calls. */
const COPY_COST = 10;
const CREDIT_MAX = 100;

interface NodeState {
  /** The id of the node, from its last answer. */
  id: number | undefined;
  answeredAt: number;
  restsUntil: number;
  /** Consecutive calls without an answer. */
  failures: number;
  /** The calls that wait at this node. */
  waiting: number;
}

export class NodeStates {
  readonly #nodes: NodeState[];
  #preferred: number;
  #leader: number | undefined;
  #credit = CREDIT_MAX;

  /** Creates the states of `count` nodes. `random` (0 to 1) selects the first one, so that processes differ. */
  constructor(count: number, random: number) {
    const never = Number.NEGATIVE_INFINITY;
    this.#nodes = Array.from({ length: count }, () => ({ id: undefined, answeredAt: never, restsUntil: never, failures: 0, waiting: 0 }));
    this.#preferred = Math.floor(random * count) % count;
  }

  get count(): number {
    return this.#nodes.length;
  }

  /**
   * The leader first, resting nodes last. While the address of the leader is unknown, nodes without an answer come
   * first, because the leader is one of them.
   */
  order(now: number): number[] {
    const isLeaderKnown = this.#leader === undefined || this.#nodes.some((node) => node.id === this.#leader);
    const wanted = isLeaderKnown ? this.#leader : undefined;
    const isBehind = (node: NodeState): boolean => this.#leader !== undefined && node.id !== wanted;
    return this.#sorted((node) => [Number(now < node.restsUntil), Number(isBehind(node))]);
  }

  /**
   * The nodes with the fewest waiting calls first, the leader after others. A keepalive that is parked there delivers a
   * grant although the node of the acquire is frozen.
   */
  orderOfIdle(now: number): number[] {
    const isLeader = (node: NodeState): boolean => node.id !== undefined && node.id === this.#leader;
    return this.#sorted((node) => [Number(now < node.restsUntil), node.waiting, Number(isLeader(node))]);
  }

  /** Records an answer, with the ids of the node and the leader in its headers. */
  answered(node: number, now: number, id?: number, leader?: number): void {
    const state = this.#node(node);
    Object.assign(state, { answeredAt: now, restsUntil: Number.NEGATIVE_INFINITY, failures: 0 });
    if (id !== undefined) {
      state.id = id;
      this.#leader = leader;
    }
  }

  /** Records that the node gave no answer, or a later one than another node. */
  rest(node: number, now: number): void {
    const state = this.#node(node);
    state.restsUntil = now + Math.min(REST_MIN * 2 ** Math.min(state.failures, 4), REST_MAX);
    state.failures += 1;
  }

  /** Records that the node refused a call until then. An answer ends the rest. */
  restUntil(node: number, until: number): void {
    const state = this.#node(node);
    state.restsUntil = Math.max(state.restsUntil, until);
  }

  answeredWithin(node: number, time: number, now: number): boolean {
    return now - this.#node(node).answeredAt < time;
  }

  /** Makes calls start at this node. */
  prefer(node: number): void {
    this.#preferred = node;
  }

  /** Counts a call that begins (1) or ends (-1) to wait at the node. */
  addWaiting(node: number, change: 1 | -1): void {
    this.#node(node).waiting += change;
  }

  get copyAfter(): number {
    return this.#credit >= COPY_COST ? COPY_AFTER : COPY_AFTER_OF_SLOW_CLUSTER;
  }

  /** Records that another node got a copy of a call. */
  copied(): void {
    this.#credit = Math.max(this.#credit - COPY_COST, 0);
  }

  /** Records that a call was answered without a copy. */
  answeredAlone(): void {
    this.#credit = Math.min(this.#credit + 1, CREDIT_MAX);
  }

  #node(index: number): NodeState {
    const node = this.#nodes[index];
    if (node === undefined) throw new RangeError(`there is no node ${index}`);
    return node;
  }

  /** The nodes from the preferred one on, sorted by the keys. */
  #sorted(keys: (node: NodeState) => readonly number[]): number[] {
    const count = this.count;
    const turns = Array.from({ length: count }, (_, turn) => (this.#preferred + turn) % count);
    const keyed = turns.map((index) => ({ index, keys: keys(this.#node(index)) }));
    keyed.sort((a, b) => a.keys.map((key, i) => key - (b.keys[i] ?? 0)).find((difference) => difference !== 0) ?? 0);
    return keyed.map(({ index }) => index);
  }
}
