package webclient

import (
	"net"
	"net/http"
)

func newTransport() *http.Transport {
	dialer := &net.Dialer{
		Timeout:         connectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: aliveInterval, Interval: aliveInterval, Count: 2},
	}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    connectTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: aliveInterval, PingTimeout: aliveInterval},
		DisableCompression:     true, // it would hold events back, and could be a bomb
		MaxIdleConnsPerHost:    maxIdle,
		WriteBufferSize:        writeBuffer,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
}
