package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/peertext"
)

// newTerminalApprover returns an approver that asks at the terminal of the process, wherever its standard streams lead.
// If standard error is a terminal, it is silent while a question is open. The function closes the terminal.
func (h *hub) newTerminalApprover() (approval.Approver, func() error, error) {
	from, to := "/dev/tty", "/dev/tty"
	if runtime.GOOS == "windows" {
		from, to = "CONIN$", "CONOUT$"
	}
	const none = "-approve terminal asks at the terminal of this process, and there is none: %v; -approve page asks in the browser"
	in, err := os.OpenFile(from, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, misuse(none, err)
	}
	out, err := os.OpenFile(to, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, errors.Join(misuse(none, err), in.Close())
	}
	closeBoth := func() error { return errors.Join(in.Close(), out.Close()) }
	approver := approval.Terminal(in, out)
	if h.held == nil {
		return approver, closeBoth, nil
	}
	return approval.ApproverFunc(func(ctx context.Context, r *approval.Request) (approval.Answer, error) {
		h.held.hold()
		defer h.held.release()
		return approver.Approve(ctx, r)
	}), closeBoth, nil
}

// maxHeld bounds what a heldWriter keeps, in bytes.
const maxHeld = 1 << 20

// A heldWriter writes to a terminal, and keeps what is written while it is held. It may be used concurrently.
type heldWriter struct {
	out *os.File

	mu      sync.Mutex
	holders int
	kept    []byte
	dropped int // lines
}

// holdTerminal replaces standard error by a writer that can be held, if it is a terminal. It returns nil if it is none.
func (env *environment) holdTerminal() *heldWriter {
	file, ok := env.terminal.(*os.File)
	if !ok || !isTerminal(file) {
		return nil
	}
	w := &heldWriter{out: file}
	env.stderr = peertext.Screen(w)
	return w
}

// SyscallConn is for the width of the terminal.
func (w *heldWriter) SyscallConn() (syscall.RawConn, error) { return w.out.SyscallConn() }

// Write writes, or keeps p. It drops what does not fit.
func (w *heldWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.holders == 0:
		return w.out.Write(p)
	case len(w.kept)+len(p) > maxHeld:
		w.dropped += max(1, bytes.Count(p, []byte("\n")))
	default:
		w.kept = append(w.kept, p...)
	}
	return len(p), nil
}

func (w *heldWriter) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holders++
}

// release writes what was kept, unless another question is open.
func (w *heldWriter) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holders--; w.holders > 0 {
		return
	}
	_, _ = w.out.Write(w.kept) // there is no other place to report an error
	if w.dropped > 0 {
		fmt.Fprintf(w.out, "dovetail: %s of the log were dropped, since a question was open and only 1 MiB is kept; -journal FILE records each request and decision\n", count(w.dropped, "line"))
	}
	w.kept, w.dropped = nil, 0
}
