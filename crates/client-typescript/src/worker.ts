/** The worker thread that renews the sessions of one client. */
import { workerData } from "node:worker_threads";
import { adoptClock } from "./clock.js";
import { Nodes } from "./nodes.js";
import { SessionRenewer, type RenewalReport } from "./renewer.js";
import { READY, type RenewalCommand, type WorkerReport, type WorkerSetup } from "./worker-renewals.js";

const { connection, clock, port } = workerData as WorkerSetup;
adoptClock(clock);
const nodes = new Nodes(connection);
const sessions = new Map<number, SessionRenewer>();

function execute(command: RenewalCommand): void {
  const { id } = command;
  const session = sessions.get(id);
  switch (command.do) {
    case "add": {
      const report = (report: RenewalReport): void => port.postMessage({ id, report } satisfies WorkerReport);
      sessions.set(id, new SessionRenewer(nodes, command.session, report));
      break;
    }
    case "use":
      session?.use(command.deadline);
      break;
    case "unuse":
      session?.unuse();
      break;
    case "report-within":
      session?.reportWithin(command.millis);
      break;
    case "stop":
      session?.stop();
      sessions.delete(id);
      break;
  }
}

port.on("message", execute);
port.postMessage(READY);
