// Adds the token of `rawko mcp serve` to requests of a client that cannot send one: the public conformance suite. Only the
// proxy's own host and origin become the server's, so that foreign ones reach it as they are.
//   node mcp-token-proxy.mjs http://127.0.0.1:PORT/mcp TOKEN
import { createServer, request } from 'node:http';

const [server, token] = process.argv.slice(2);
const { hostname, port, host } = new URL(server);
const proxy = createServer((incoming, outgoing) => {
  const own = proxy.address().port;
  const translated = (value) => value?.replace(`localhost:${own}`, `localhost:${port}`).replace(`127.0.0.1:${own}`, host);
  const headers = { ...incoming.headers, authorization: `Bearer ${token}`, host: translated(incoming.headers.host) };
  if (headers.origin) headers.origin = translated(headers.origin);
  const onward = request({ hostname, port, path: incoming.url, method: incoming.method, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode, answer.headers);
    outgoing.flushHeaders();
    answer.pipe(outgoing);
  });
  onward.on('error', () => outgoing.destroy());
  outgoing.on('close', () => onward.destroy());
  incoming.pipe(onward);
});
proxy.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${proxy.address().port}/mcp`));
