package resources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/internal/filetree"
)

// FileOptions configure [File]. The zero value is ready to use.
type FileOptions struct {
	// Resource describes the resource. Its default URI is file:/// and the name of the
	// file, its default Name the last element, its default MIMEType the type of the extension.
	server.Resource
	// MaxSize is the maximum size of the file, in bytes. Default 10 MiB.
	MaxSize int64
}

// File returns a resource for one file below root. name is relative, with slashes. The file
// need not exist yet. Symbolic links are followed if they stay below root.
func File(root *os.Root, name string, opts *FileOptions) (*server.Entry, error) {
	if root == nil {
		return nil, errNoRoot
	}
	if !filetree.IsName(name) {
		return nil, fmt.Errorf("the name of the file %.80q: expected a relative path with slashes and without dots as elements", name)
	}
	var options FileOptions
	if opts != nil {
		options = *opts
	}
	resource := options.Resource
	resource.URI = cmp.Or(resource.URI, filetree.URI(defaultURI, name))
	resource.Name = cmp.Or(resource.Name, path.Base(name))
	resource.MIMEType = cmp.Or(resource.MIMEType, filetree.MediaType(name))
	limit := cmp.Or(max(options.MaxSize, 0), defaultMaxSize)
	entry, err := server.NewResource(resource, func(context.Context, *server.Request) (mcp.ResourceContents, error) {
		f, err := openRegular(root, name)
		if err != nil {
			return nil, readError(resource.URI, err)
		}
		defer f.Close()
		data, err := filetree.Read(f, limit)
		if err != nil {
			return nil, readError(resource.URI, err)
		}
		return filetree.Contents(resource.URI, resource.MIMEType, data), nil
	})
	if err != nil {
		return nil, err
	}
	scan := func(context.Context) (map[string]version, error) {
		info, err := root.Stat(name)
		switch {
		case err == nil:
			return map[string]version{resource.URI: versionOf(info)}, nil
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		}
		return nil, err
	}
	return withFileSet(entry, &fileSet{readable: true, scan: scan}), nil
}

// defaultURI is the default URI of a directory. It does not reveal the real path.
const defaultURI = "file:///"

var errNoRoot = errors.New("the root is nil")

// openRegular opens a regular file and follows links that stay below root. It checks the type
// before, because opening a device may have an effect, and after opening.
func openRegular(root *os.Root, name string) (*os.File, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	return filetree.OnlyRegular(filetree.OpenNonBlocking(root, name))
}

// readError returns the error for a client. It contains no path.
func readError(uri string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return mcp.ResourceNotFound(uri)
	}
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err
	}
	return fmt.Errorf("%.256q cannot be read: %w", uri, err)
}

// Defaults of options.
const (
	// defaultMaxSize is the maximum size of contents, in bytes.
	defaultMaxSize = 10 << 20
	// defaultMaxFiles is the maximum number of files in a listing.
	defaultMaxFiles = 10_000
	// defaultInterval is the interval at which [Watch] checks files.
	defaultInterval = 2 * time.Second
	// defaultTimeout bounds an HTTP request.
	defaultTimeout = 30 * time.Second
)

const (
	maxPattern = 1 << 10 // bytes
	maxVisited = 200_000 // directory entries visited for one listing
	maxListed  = 4 << 20 // bytes of all paths in one listing
	maxETag    = 1 << 10 // bytes of an entity tag that is stored
)
