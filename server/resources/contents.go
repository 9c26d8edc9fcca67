package resources

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/mcp"
)

// contentsOf are data as text where they are text, else as a blob. mimeType is "" when
// it is not known.
func contentsOf(uri, mimeType string, data []byte) mcp.ResourceContents {
	valid := utf8.Valid(data)
	if mimeType == "" {
		mimeType = "application/octet-stream"
		if valid && bytes.IndexByte(data, 0) < 0 {
			mimeType = "text/plain"
		}
	}
	if valid && isText(mimeType) {
		return &mcp.TextResourceContents{URI: uri, MIMEType: mimeType, Text: string(data)}
	}
	return &mcp.BlobResourceContents{URI: uri, MIMEType: mimeType, Blob: data}
}

// checkRegular has anything but a regular file not exist.
func checkRegular(f fs.File) error {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return fs.ErrNotExist
	}
	return err
}

// readFile reads an open file whose size is known, but may not be true.
func readFile(f fs.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size > limit {
		return nil, tooLong(limit)
	}
	buf := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	if _, err := buf.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(buf.Len()) > limit {
		return nil, tooLong(limit)
	}
	return buf.Bytes(), nil
}

func tooLong(limit int64) error { return fmt.Errorf("it is longer than %d bytes", limit) }

// readError is what the reader of a resource is told, which names no path.
func readError(uri string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return mcp.ResourceNotFound(uri)
	}
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err
	}
	return fmt.Errorf("%.256q cannot be read: %w", uri, err)
}
