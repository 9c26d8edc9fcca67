package resources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// FileOptions configure [File]. The zero value is good.
type FileOptions struct {
	// Resource describes the resource. Defaults: as URI file:/// and the file's name,
	// as Name its last element, as MIMEType what the extension says.
	server.Resource
	// MaxSize is how long the file may be, in bytes. Default [DefaultMaxSize].
	MaxSize int64
}

// File makes a resource of one file below root. name is relative, with slashes. The file
// need not be there yet. A symbolic link is followed as long as it stays below root.
func File(root *os.Root, name string, opts *FileOptions) (*server.Entry, error) {
	if root == nil {
		return nil, errNoRoot
	}
	if !isName(name) {
		return nil, fmt.Errorf("the name of the file %.80q: expected a relative path with slashes and without dots as elements", name)
	}
	var options FileOptions
	if opts != nil {
		options = *opts
	}
	resource := options.Resource
	resource.URI = cmp.Or(resource.URI, uriOf(defaultURI, name))
	resource.Name = cmp.Or(resource.Name, path.Base(name))
	resource.MIMEType = cmp.Or(resource.MIMEType, typeOf(name))
	limit := cmp.Or(max(options.MaxSize, 0), DefaultMaxSize)
	entry, err := server.NewResource(resource, func(context.Context, *server.Request) (mcp.ResourceContents, error) {
		f, err := openRegular(root, name)
		if err != nil {
			return nil, readError(resource.URI, err)
		}
		defer f.Close()
		data, err := readFile(f, limit)
		if err != nil {
			return nil, readError(resource.URI, err)
		}
		return contentsOf(resource.URI, resource.MIMEType, data), nil
	})
	if err != nil {
		return nil, err
	}
	look := func(context.Context) (map[string]stamp, error) {
		info, err := root.Stat(name)
		switch {
		case err == nil:
			return map[string]stamp{resource.URI: stampOf(info)}, nil
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		}
		return nil, err
	}
	return withWatched(entry, &watched{readable: true, look: look}), nil
}

// defaultURI is that of a directory. The path of the real one is nobody's business.
const defaultURI = "file:///"

var errNoRoot = errors.New("there is no root to read from: nil was given")

// openRegular opens a regular file, or what a link that stays below root leads to. It is
// looked at before it is opened, since opening a device may do something already.
func openRegular(root *os.Root, name string) (*os.File, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	f, err := openNow(root, name)
	if err != nil {
		return nil, err
	}
	if err := checkRegular(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
