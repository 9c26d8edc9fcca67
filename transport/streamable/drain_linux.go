package streamable

import (
	"math"
	"syscall"

	"golang.org/x/sys/unix"
)

// refuseConnections makes the system ignore the first packet (SYN) of each new connection to a listener. Connections
// that are being made go on. A peer whose packet is ignored sends it again after a second (RFC 6298, section 2), when the
// listener has been closed.
func refuseConnections(listener syscall.RawConn) error {
	const (
		flags = 13 // offset of the flags in a TCP header
		syn   = 1 << 1
	)
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: syn},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: syn, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: math.MaxUint32},
	}
	var failed error
	err := listener.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
	if err != nil {
		return err
	}
	return failed
}
