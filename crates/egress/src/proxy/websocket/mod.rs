//! Relays a websocket between client and server, frame by frame. The policy of the endpoint where the websocket was
//! opened decides about text from the client, and placeholders in the text are replaced if that endpoint allows it. A
//! placeholder that is not replaced ends the websocket. Nothing passes that is not a frame.

mod frames;
mod relay;
mod text_rule;
mod to_client;
mod to_server;

pub(super) use relay::relay;
