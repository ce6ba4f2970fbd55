/**
 * Renews sessions on a worker thread, which a blocked event loop of the caller does not stop.
 *
 * The worker has separate connections. Its reports arrive as messages. `drain` reads them without the event loop, so that
 * `ensure()` sees a renewal and a loss while the loop is blocked.
 */
import { join } from "node:path";
import { MessageChannel, receiveMessageOnPort, Worker, type MessagePort } from "node:worker_threads";
import { sharedClock, type ClockState } from "./clock.js";
import type { Connection } from "./connection.js";
import { UnavailableError } from "./errors.js";
import type { Renewals, RenewedSession, RenewalReport, SessionRenewals } from "./renewer.js";

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

export class WorkerRenewals implements Renewals {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #reports = new Map<number, (report: RenewalReport) => void>();
  readonly #used = new Set<number>();
  readonly #ready: Promise<void>;
  #lastId = 0;

  constructor(connection: Connection) {
    const { port1, port2 } = new MessageChannel();
    const setup: WorkerSetup = { connection, clock: sharedClock(), port: port2 };
    this.#worker = new Worker(join(__dirname, "worker.js"), { workerData: setup, transferList: [port2], name: "holdfast" });
    this.#port = port1;
    this.#ready = new Promise((resolve, reject) => {
      this.#port.once("message", () => resolve());
      this.#worker.once("error", (error) => reject(new UnavailableError(`the renewal thread failed: ${error.message}`)));
    });
    this.#ready.catch(() => {});
    this.#port.on("message", (message: WorkerReport | typeof READY) => this.#deliver(message));
    this.#worker.on("error", (error) => this.#failed(error));
    this.#worker.unref();
    this.#port.unref();
  }

  /** The thread has started. A caller that blocks its event loop after its first lock is then renewed already. */
  async ready(): Promise<void> {
    this.#setUsed(0, true);
    await this.#ready.finally(() => this.#setUsed(0, false));
  }

  add(session: RenewedSession, report: (report: RenewalReport) => void): SessionRenewals {
    this.#lastId += 1;
    const id = this.#lastId;
    this.#reports.set(id, report);
    this.#send({ id, do: "add", session });
    return {
      use: (deadline) => {
        this.#setUsed(id, true);
        this.#send({ id, do: "use", deadline });
      },
      unuse: () => {
        this.#setUsed(id, false);
        this.#send({ id, do: "unuse" });
      },
      reportWithin: (millis) => this.#send({ id, do: "report-within", millis }),
      stop: () => {
        this.#setUsed(id, false);
        this.#reports.delete(id);
        this.#send({ id, do: "stop" });
      },
    };
  }

  drain(): void {
    for (;;) {
      const received = receiveMessageOnPort(this.#port);
      if (received === undefined) return;
      this.#deliver(received.message as WorkerReport | typeof READY);
    }
  }

  close(): void {
    this.#port.close();
    void this.#worker.terminate();
  }

  #send(command: RenewalCommand): void {
    this.#port.postMessage(command);
  }

  #deliver(message: WorkerReport | typeof READY): void {
    if (message !== READY) this.#reports.get(message.id)?.(message.report);
  }

  /** A session in use keeps the process alive. */
  #setUsed(id: number, isUsed: boolean): void {
    if (isUsed) this.#used.add(id);
    else this.#used.delete(id);
    if (this.#used.size > 0) this.#port.ref();
    else this.#port.unref();
  }

  /** Without the worker nothing renews: the deadlines of the sessions report the loss. */
  #failed(error: Error): void {
    for (const report of this.#reports.values()) report({ kind: "failed", reason: `the renewal thread failed: ${error.message}` });
  }
}
