// A proxy that serves a node under a path prefix, as a load balancer does: it removes the prefix and adds nothing.
import http from "node:http";
import https from "node:https";

/** Serves `target` under `prefix` on a free port of 127.0.0.1, with TLS if the target has it. `outside` has the paths that were asked for without the prefix. */
export async function servePrefix(target, prefix, tls) {
  const { request, createServer } = tls ? https : http;
  const outside = [];
  const server = createServer(tls ?? {}, (incoming, outgoing) => {
    if (!incoming.url.startsWith(prefix)) {
      outside.push(incoming.url);
      outgoing.writeHead(404).end();
      return;
    }
    const options = { method: incoming.method, headers: incoming.headers, rejectUnauthorized: false };
    const sent = request(target + incoming.url.slice(prefix.length), options, (reply) => {
      outgoing.writeHead(reply.statusCode, reply.headers);
      reply.pipe(outgoing);
    });
    sent.on("error", () => outgoing.destroy());
    outgoing.on("close", () => sent.destroy());
    incoming.pipe(sent);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `${tls ? "https" : "http"}://127.0.0.1:${server.address().port}${prefix}`, outside, close };
}
