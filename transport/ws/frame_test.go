package ws_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"

	"github.com/gorilla/websocket"
)

const handshake = "GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mcp\r\n\r\n"

// The first bits of a frame: RFC 6455, section 5.2.
const (
	fin  = 0x80
	rsv1 = 0x40
	rsv2 = 0x20
	rsv3 = 0x10

	more   = 0
	text   = websocket.TextMessage
	blob   = websocket.BinaryMessage
	closes = websocket.CloseMessage
	ping   = websocket.PingMessage
	pong   = websocket.PongMessage
)

// frame is a frame as a client sends it. The mask is zero, which is one.
func frame(first byte, payload string) []byte {
	buf := append(frameHead(first, uint64(len(payload))), 0, 0, 0, 0)
	return append(buf, payload...)
}

// frameHead is the head of a masked frame, without the mask.
func frameHead(first byte, size uint64) []byte {
	const mask = 0x80
	switch {
	case size <= 125:
		return []byte{first, mask | byte(size)}
	case size <= 0xffff:
		return binary.BigEndian.AppendUint16([]byte{first, mask | 126}, uint16(size))
	}
	return binary.BigEndian.AppendUint64([]byte{first, mask | 127}, size)
}

// closePayload is what a close frame holds.
func closePayload(code uint16, reason string) string {
	return string(binary.BigEndian.AppendUint16(nil, code)) + reason
}

// rawClient is a client that may send whatever it likes.
type rawClient struct {
	net.Conn
	in *bufio.Reader
}

// newRawClient opens a WebSocket on a connection.
func newRawClient(t *testing.T, conn net.Conn) *rawClient {
	t.Helper()
	return newRawClientSaying(t, conn, handshake)
}

// newRawClientSaying does with a handshake of its own.
func newRawClientSaying(t *testing.T, conn net.Conn, handshake string) *rawClient {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	c := &rawClient{conn, bufio.NewReader(conn)}
	fmt.Fprint(conn, handshake)
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Sec-WebSocket-Protocol") != "mcp" {
		t.Fatalf("the handshake was answered with %v", resp)
	}
	if extensions := resp.Header.Values("Sec-WebSocket-Extensions"); extensions != nil {
		t.Errorf("extensions were agreed on: %q", extensions)
	}
	return c
}

// next reads one frame.
func (c *rawClient) next() (opcode int, payload string, err error) {
	var head [2]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return 0, "", err
	}
	if head[0]&fin == 0 || head[0]&(rsv1|rsv2|rsv3) != 0 || head[1]&0x80 != 0 {
		return 0, "", fmt.Errorf("a server must not send a frame that begins with %x", head)
	}
	size := uint64(head[1])
	if extended := map[uint64]int{126: 2, 127: 8}[size]; extended > 0 {
		var length [8]byte
		if _, err := io.ReadFull(c.in, length[8-extended:]); err != nil {
			return 0, "", err
		}
		size = binary.BigEndian.Uint64(length[:])
	}
	body := make([]byte, size)
	_, err = io.ReadFull(c.in, body)
	return int(head[0] & 0x0f), string(body), err
}

// receive reads one frame and compares it.
func (c *rawClient) receive(t *testing.T, opcode int, payload string) {
	t.Helper()
	gotOpcode, gotPayload, err := c.next()
	if err != nil || gotOpcode != opcode || gotPayload != payload {
		t.Errorf("the server sent frame %d with %.200q (%v), want %d with %q", gotOpcode, gotPayload, err, opcode, payload)
	}
}

// receiveClose reads frames up to the end of the connection, which must bring
// exactly one close frame, as the last; it returns what that holds.
func (c *rawClient) receiveClose(t *testing.T) (code int, reason string) {
	t.Helper()
	var opcodes []int
	for {
		opcode, payload, err := c.next()
		if err != nil {
			if err != io.EOF {
				t.Errorf("the connection ended with %v", err)
			}
			break
		}
		opcodes = append(opcodes, opcode)
		if opcode == closes {
			code, reason = websocket.CloseNoStatusReceived, ""
			if len(payload) >= 2 {
				code, reason = int(binary.BigEndian.Uint16([]byte(payload))), payload[2:]
			}
		}
	}
	if first := slices.Index(opcodes, closes); first < 0 || first != len(opcodes)-1 {
		t.Errorf("the server sent the frames %v, want one close frame at the end", opcodes)
	}
	return code, reason
}
