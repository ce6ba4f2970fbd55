/** The client of holdfast, a self-hosted lock coordinator. */
export { Barrier, DoubleBarrier, DoubleBarrierPlace, type Tripped } from "./barriers.js";
export type { ErrorCode } from "./codes.js";
export { Client, DEFAULTS, type ClientOptions } from "./client.js";
export type { ConnectionOptions } from "./connection.js";
export { Election, Leadership, type CampaignOptions } from "./election.js";
export type { Duration } from "./duration.js";
export {
  BusyError,
  HoldfastError,
  InvalidArgumentError,
  LostError,
  OutcomeUnknownError,
  RejectedError,
  UnavailableError,
  UnexpectedResponseError,
  type Holder,
  type Problem,
} from "./errors.js";
export { Group, GroupWatcher, Membership, type GroupMembers } from "./group.js";
export { Guard, MultiGuard } from "./guard.js";
export type { LockOptions, Mode, MultiLockOptions } from "./lock-options.js";
export type { DurableHoldOptions } from "./durable.js";
export type { LockState, ReleaseRequestOptions } from "./lock-state.js";
export type { Loss, LossCause } from "./loss.js";
export type { Metrics } from "./metrics.js";
export { Observer, type ElectionChange, type Leader } from "./observer.js";
export type { OpenSession } from "./open-session.js";
export { Counter, Latch, type CounterState, type WaitOptions } from "./recipes.js";
export type { ReleaseRequest } from "./release-request.js";
export type { ReceiveOptions } from "./transfer.js";
export { Tree, type PutOptions, type Znode } from "./tree.js";
export { Watcher, type TreeChange } from "./watcher.js";
