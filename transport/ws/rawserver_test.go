package ws_test

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
)

// A rawServer opens WebSockets as it likes, and then does as it likes.
type rawServer struct {
	head string // of the answer to the handshake, with %s for the accepted key; "" means a good one
	then func(conn net.Conn)
}

const goodHead = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: mcp\r\n\r\n"

func (s *rawServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, in, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	head := s.head
	if head == "" {
		head = goodHead
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(conn, head, base64.StdEncoding.EncodeToString(sum[:]))
	if s.then != nil {
		s.then(conn)
		return
	}
	readOn(in.Reader)
}

// readOn reads to the end and says nothing.
func readOn(in *bufio.Reader) { io.Copy(io.Discard, in) }

// silentServer opens WebSockets and then says no more than this.
func silentServer(then func(conn net.Conn)) http.Handler { return &rawServer{then: then} }

// answerCall waits for a short message, and sends something. It hangs up then, or
// when the client does.
func answerCall(sent []byte, hangUp bool) func(net.Conn) {
	return func(conn net.Conn) {
		var head [2]byte
		io.ReadFull(conn, head[:])
		io.CopyN(io.Discard, conn, int64(head[1]&0x7f)+4)
		done := make(chan struct{})
		go func() {
			defer close(done)
			io.Copy(io.Discard, conn)
		}()
		conn.Write(sent)
		if !hangUp {
			<-done
		}
	}
}
