// An MCP client of the official SDK, through an HTTP proxy. Usage: node mcp-client.cjs SDK URL PROXY TOOL...
const path = require("node:path");
const http = require("node:http");
const { Readable } = require("node:stream");
const [directory, url, proxy, ...tools] = process.argv.slice(2);
const sdk = (file) => require(path.join(directory, "dist/cjs", file));
const { Client } = sdk("client/index.js");
const { StreamableHTTPClientTransport } = sdk("client/streamableHttp.js");

const [host, port] = proxy.split(":");
const through = (target, { method = "GET", headers, body, signal } = {}) =>
  new Promise((resolve, reject) => {
    const length = body ? { "content-length": Buffer.byteLength(body) } : {};
    const sent = { ...Object.fromEntries(new Headers(headers)), ...length, host: new URL(target).host };
    const request = http.request({ host, port, method, path: String(target), headers: sent }, (response) => {
      const empty = [204, 304].includes(response.statusCode);
      resolve(new Response(empty ? null : Readable.toWeb(response), { status: response.statusCode, headers: response.headers }));
    });
    signal?.addEventListener("abort", () => request.destroy());
    request.on("error", reject);
    request.end(body);
  });

(async () => {
  const client = new Client({ name: "lab-client", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { fetch: through }));
  const listed = await client.listTools();
  console.log(`tools: ${listed.tools.map((tool) => tool.name).join(" ")}`);
  for (const name of tools) {
    try {
      const result = await client.callTool({ name, arguments: { text: "hello" } });
      console.log(result.content[0].text);
    } catch (error) {
      console.log(`${name} failed: ${error.message}`);
    }
  }
  await client.close();
  process.exit(0);
})();
