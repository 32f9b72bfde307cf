// An MCP server of the official SDK with two tools. Usage: node mcp-server.cjs SDK; prints its port.
const path = require("node:path");
const http = require("node:http");
const sdk = (file) => require(path.join(process.argv[2], "dist/cjs", file));
const { Server } = sdk("server/index.js");
const { StreamableHTTPServerTransport } = sdk("server/streamableHttp.js");
const { CallToolRequestSchema, ListToolsRequestSchema } = sdk("types.js");

const tool = (name) => ({ name, description: name, inputSchema: { type: "object", properties: { text: { type: "string" } } } });

const listener = http.createServer(async (request, response) => {
  const server = new Server({ name: "lab", version: "1" }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [tool("echo"), tool("drop")] }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
    console.error(`called ${params.name}`);
    return { content: [{ type: "text", text: `${params.name} says ${params.arguments.text}` }] };
  });
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  await server.connect(transport);
  await transport.handleRequest(request, response);
});
listener.listen(0, "127.0.0.1", () => console.log(listener.address().port));
