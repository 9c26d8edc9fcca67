package httptransport

import (
	"net"
	"net/http"
	"time"
)

// Limits of [NewServer].
const (
	// readHeaderTimeout bounds the arrival of a request's header, which unknown clients send.
	readHeaderTimeout = 5 * time.Second
	// serverIdleTimeout is how long a connection without a request is kept.
	serverIdleTimeout = 2 * time.Minute
	// maxRequestHeader is the maximum size of a request's header in bytes. A header of many short
	// lines needs ten times as much memory, and any client can hold that for readHeaderTimeout. The
	// default of net/http is 1 MiB.
	maxRequestHeader = 16 << 10
	// maxStreams is the maximum number of concurrent requests on one connection of HTTP/2.
	maxStreams = 128
)

// NewServer returns a web server with limits for unknown clients. A request's header has at most
// 16 KiB and 5 s, a connection without a request is kept for 2 minutes, and a connection of HTTP/2
// has at most 128 concurrent requests. The server does not limit the number of connections, nor the
// time of a response, which may be a stream of events. The caller may change fields before it serves.
//
// An MCP server alone needs no web server: streamable.Serve makes one.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       serverIdleTimeout,
		MaxHeaderBytes:    maxRequestHeader,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
}

// Limits of [NewClient].
const (
	// maxResponseHeader is the maximum size of a response header in bytes.
	maxResponseHeader = 256 << 10
	// connectTimeout bounds connecting, and then the TLS handshake.
	connectTimeout = 30 * time.Second
	// writeBuffer is the size of the largest request that is sent in one write.
	writeBuffer = 16 << 10
	// pingInterval is the interval of keep-alive probes on a silent connection. A connection
	// that misses two probes is closed.
	pingInterval = 15 * time.Second
	// maxIdle is the maximum number of idle connections to one server, and clientIdleTimeout is
	// how long they are kept.
	maxIdle           = 64
	clientIdleTimeout = 90 * time.Second
)

// NewClient returns a client with connections of its own, for servers that the program names. It
// uses the proxies of the environment. Connecting and the TLS handshake take at most 30 s each, a
// response header has at most 256 KiB, and responses are not compressed. A whole request has no
// timeout, because its response may be a stream of events: use the context of the request. configure
// may change the settings; nil means no change. http.Client.CloseIdleConnections closes connections
// earlier than after 90 s.
//
// The client does not check where a URL leads. A URL that a peer names may lead to a private network.
func NewClient(configure func(*http.Transport)) *http.Client {
	dialer := &net.Dialer{
		Timeout:         connectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pingInterval, Interval: pingInterval, Count: 2},
	}
	settings := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    connectTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingInterval, PingTimeout: pingInterval},
		DisableCompression:     true, // it would delay events, and a response could be a compression bomb
		MaxIdleConnsPerHost:    maxIdle,
		WriteBufferSize:        writeBuffer,
		IdleConnTimeout:        clientIdleTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
	if configure != nil {
		configure(settings)
	}
	return &http.Client{Transport: settings}
}
