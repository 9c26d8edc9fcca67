package webclient

import (
	"context"
	"io"
	"net/http"
	"time"
)

// Drain reads what nobody wants of an answer, so that its connection can be used
// again: at most 64 KiB, for at most a second, when it cancels the request.
func Drain(body io.Reader, cancel context.CancelFunc) {
	if body == http.NoBody {
		return
	}
	timer := time.AfterFunc(drainTimeout, cancel)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, maxDrained) // it says nothing of interest
}
