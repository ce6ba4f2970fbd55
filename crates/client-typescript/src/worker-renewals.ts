/**
 * Renews sessions on a worker thread, which a blocked event loop of the caller does not stop.
 *
 * The worker has separate connections. Its reports arrive as messages. `drain` reads them without the event loop, so that
 * `ensure()` sees a renewal and a loss while the loop is blocked. Another worker replaces one that ends. Bounds: one worker.
 */
import { join } from "node:path";
import { MessageChannel, receiveMessageOnPort, Worker, type MessagePort } from "node:worker_threads";
import { monotonic, sharedClock, type ClockState } from "./clock.js";
import type { Connection } from "./connection.js";
import { UnavailableError } from "./errors.js";
import { renewed, type Renewals, type RenewedSession, type RenewalReport, type SessionRenewals } from "./renewer.js";

export interface WorkerSetup {
  readonly connection: Connection;
  readonly clock: ClockState;
  readonly port: MessagePort;
}

/** A command to the worker. */
export type RenewalCommand =
  | { readonly id: number; readonly do: "add"; readonly session: RenewedSession }
  | { readonly id: number; readonly do: "use"; readonly deadline: number }
  | { readonly id: number; readonly do: "report-within"; readonly millis: number }
  | { readonly id: number; readonly do: "unuse" | "stop" };

export interface WorkerReport {
  readonly id: number;
  readonly report: RenewalReport;
}

/** The first message of the worker. */
export const READY = "ready";

/**
 * The pause before another thread replaces one that ended: short beside the shortest time-to-live, 1 s. It doubles up to
 * `RESTART_PAUSE_MAX` until a thread has lived for `STABLE_AFTER`.
 */
const RESTART_PAUSE = 100;
const RESTART_PAUSE_MAX = 3_200;
const STABLE_AFTER = 5_000;

/** A session of the worker, as its last report left it. */
interface KnownSession {
  session: RenewedSession;
  readonly report: (report: RenewalReport) => void;
}

/** One worker thread and the port to it. */
interface RenewalThread {
  readonly worker: Worker;
  readonly port: MessagePort;
  readonly startedAt: number;
  /** Rejects if the thread ends before it renews anything. */
  readonly ready: Promise<void>;
  readonly isReady: () => void;
}

export class WorkerRenewals implements Renewals {
  readonly #connection: Connection;
  readonly #sessions = new Map<number, KnownSession>();
  readonly #used = new Set<number>();
  #thread: RenewalThread | undefined;
  #restart: NodeJS.Timeout | undefined;
  #restartPause = RESTART_PAUSE;
  #lastId = 0;
  #isClosed = false;

  constructor(connection: Connection) {
    this.#connection = connection;
    void this.#started();
  }

  /** The thread has started. A caller that blocks its event loop after its first lock is then renewed already. */
  async ready(): Promise<void> {
    this.#setUsed(0, true);
    await this.#started().finally(() => this.#setUsed(0, false));
  }

  add(session: RenewedSession, report: (report: RenewalReport) => void): SessionRenewals {
    this.#lastId += 1;
    const id = this.#lastId;
    this.#sessions.set(id, { session, report });
    this.#send({ id, do: "add", session });
    return {
      use: (deadline) => {
        this.#setUsed(id, true);
        this.#extend(id, { deadline });
        void this.#started();
        this.#send({ id, do: "use", deadline });
      },
      unuse: () => {
        this.#setUsed(id, false);
        this.#send({ id, do: "unuse" });
      },
      reportWithin: (millis) => this.#send({ id, do: "report-within", millis }),
      stop: () => {
        this.#setUsed(id, false);
        this.#sessions.delete(id);
        this.#send({ id, do: "stop" });
      },
    };
  }

  drain(): void {
    if (this.#thread !== undefined) this.#drain(this.#thread.port);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#restart);
    this.#thread?.port.close();
    void this.#thread?.worker.terminate();
    this.#thread = undefined;
  }

  /** Starts a thread if there is none, which renews every known session. Rejects if none can start; a caller may ignore that. */
  #started(): Promise<void> {
    if (this.#thread !== undefined) return this.#thread.ready;
    const { port1: port, port2 } = new MessageChannel();
    const setup: WorkerSetup = { connection: this.#connection, clock: sharedClock(), port: port2 };
    let worker: Worker;
    try {
      worker = new Worker(join(__dirname, "worker.js"), { workerData: setup, transferList: [port2], name: "holdfast" });
    } catch (error) {
      // E.g. the process has as many threads as its limits allow.
      for (const end of [port, port2]) end.close();
      const reason = `no renewal thread can start: ${String(error)}`;
      this.#failed(reason);
      const ready = Promise.reject<void>(new UnavailableError(reason));
      ready.catch(() => {});
      return ready;
    }
    let reason = "the renewal thread ended";
    let isReady = (): void => {};
    const ready = new Promise<void>((resolve, reject) => {
      isReady = resolve;
      worker.once("error", (error) => (reason = `the renewal thread failed: ${error.message}`));
      worker.once("exit", () => {
        reject(new UnavailableError(reason));
        this.#ended(worker, port, reason);
      });
    });
    ready.catch(() => {});
    port.on("message", (message: WorkerReport | typeof READY) => this.#deliver(message));
    worker.unref();
    this.#thread = { worker, port, startedAt: monotonic(), ready, isReady };
    this.#refer();
    for (const [id, { session }] of this.#sessions) {
      this.#send({ id, do: "add", session });
      if (this.#used.has(id)) this.#send({ id, do: "use", deadline: session.deadline });
    }
    return ready;
  }

  #ended(worker: Worker, port: MessagePort, reason: string): void {
    if (this.#isClosed || this.#thread?.worker !== worker) return;
    this.#drain(port);
    port.close();
    if (monotonic() - this.#thread.startedAt >= STABLE_AFTER) this.#restartPause = RESTART_PAUSE;
    this.#thread = undefined;
    this.#failed(reason);
  }

  /** Starts another thread later if a session is in use then. If none starts, the deadlines of the sessions report the loss. */
  #failed(reason: string): void {
    for (const [id, { report }] of [...this.#sessions]) if (this.#used.has(id)) report({ kind: "failed", reason });
    clearTimeout(this.#restart);
    this.#restart = setTimeout(() => {
      if (this.#used.size > 0 && !this.#isClosed) void this.#started();
    }, this.#restartPause);
    this.#restartPause = Math.min(this.#restartPause * 2, RESTART_PAUSE_MAX);
    this.#refer();
  }

  #send(command: RenewalCommand): void {
    this.#thread?.port.postMessage(command);
  }

  #drain(port: MessagePort): void {
    for (;;) {
      const received = receiveMessageOnPort(port);
      if (received === undefined) return;
      this.#deliver(received.message as WorkerReport | typeof READY);
    }
  }

  #deliver(message: WorkerReport | typeof READY): void {
    if (message === READY) return this.#thread?.isReady();
    const { id, report } = message;
    if (report.kind === "renewed") this.#extend(id, renewed(report));
    this.#sessions.get(id)?.report(report);
  }

  /** Stores what another thread needs to renew the session. */
  #extend(id: number, { deadline, ...more }: Partial<RenewedSession>): void {
    const known = this.#sessions.get(id);
    if (known === undefined) return;
    known.session = { ...known.session, ...more, deadline: Math.max(known.session.deadline, deadline ?? 0) };
  }

  /** A session in use keeps the process alive. */
  #setUsed(id: number, isUsed: boolean): void {
    if (isUsed) this.#used.add(id);
    else this.#used.delete(id);
    this.#refer();
  }

  #refer(): void {
    for (const handle of [this.#thread?.port, this.#restart]) {
      if (this.#used.size > 0) handle?.ref();
      else handle?.unref();
    }
  }
}
