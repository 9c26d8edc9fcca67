// Package wsconn holds what transport/ws and approval/channel need around a WebSocket of
// package github.com/gorilla/websocket.
//
//   - [ParseURL] and [Dialer] prepare the client's handshake; [Accept] and [Upgrader] answer
//     it.
//   - [KeepAlive] sends pings and ends the reading of a connection whose peer is silent.
package wsconn
