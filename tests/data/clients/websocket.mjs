// Opens a websocket, says hello, and tells what came back.
const socket = new WebSocket(process.argv[2]);
const ended = new Promise((resolve) => {
  socket.onopen = () => socket.send("hello");
  socket.onmessage = (message) => { console.log("heard", message.data); socket.close(); };
  socket.onerror = () => console.log("failed");
  socket.onclose = (event) => { console.log("closed", event.code, event.reason); resolve(); };
});
await ended;
