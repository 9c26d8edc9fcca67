package netguard

import (
	"io"
	"net/http"
)

// bound has the body of an answer end with a [*SizeError] when it is too long, at once
// if its header says so.
func bound(res *http.Response, limit int64) error {
	if res.Request.Method != http.MethodHead && res.ContentLength > limit {
		res.Body.Close()
		return &SizeError{Max: limit}
	}
	res.Body = &boundedBody{ReadCloser: res.Body, limit: limit, left: limit}
	return nil
}

type boundedBody struct {
	io.ReadCloser
	limit, left int64
}

// Read reads one byte more than may come, to know whether there is one.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, &SizeError{Max: b.limit}
	}
	if int64(len(p))-1 > b.left {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, &SizeError{Max: b.limit}
	}
	return n, err
}
