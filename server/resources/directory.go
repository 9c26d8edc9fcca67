package resources

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// DirectoryOptions configure [Directory] and [FS]. The zero value is good.
type DirectoryOptions struct {
	// Resource describes the listing. Its default URI is file:///, its default Name
	// is files. The URIs of the files begin with its URI and a slash. Name, Title,
	// Annotations, Icons, Scopes, Metadata, guards and middleware are those of the template
	// too.
	server.Resource
	// Pattern selects files by their paths, with slashes on every system. The syntax is
	// that of path.Match with ** for any number of directories and {a,b} for one of
	// several. An element has at most four braces. Default "*", which is the files of
	// the directory itself; "**" is all below it.
	Pattern string
	// Hidden also offers files with an element in their path that begins with a dot.
	Hidden bool
	// ListOnly leaves the template out: files are listed, not read.
	ListOnly bool
	// MaxFiles is how many files may be listed; more are an error. Default
	// [DefaultMaxFiles].
	MaxFiles int
	// MaxSize is how long a file may be that is read, in bytes. Default
	// [DefaultMaxSize].
	MaxSize int64
}

// Directory makes a resource that lists the regular files below root, as a JSON array of
// sorted paths, relative and with slashes, and a template that reads them. Symbolic
// links are not followed, and neither listed nor read. Files whose names are not UTF-8
// or hold a backslash are not offered, nor are those more than 64 levels down.
//
// For the URI of a file, whatever is not allowed in a path is percent-encoded.
func Directory(root *os.Root, opts *DirectoryOptions) ([]*server.Entry, error) {
	if root == nil {
		return nil, errNoRoot
	}
	return entries(rootTree{root}, opts)
}

// FS does what [Directory] does for a file system, such as an embed.FS. For a directory
// of the system prefer Directory: os.DirFS lets links lead out of it.
func FS(fsys fs.FS, opts *DirectoryOptions) ([]*server.Entry, error) {
	if fsys == nil {
		return nil, errNoRoot
	}
	return entries(fsTree{fsys}, opts)
}

// A directory is a tree with what is offered of it.
type directory struct {
	tree     tree
	pattern  pattern
	hidden   bool
	maxFiles int
	maxSize  int64
	base     string // of the files' URIs
}

func entries(tree tree, opts *DirectoryOptions) ([]*server.Entry, error) {
	var options DirectoryOptions
	if opts != nil {
		options = *opts
	}
	listing := options.Resource
	listing.URI = cmp.Or(listing.URI, defaultURI)
	pattern, err := parsePattern(cmp.Or(options.Pattern, "*"))
	if err != nil {
		return nil, err
	}
	d := &directory{
		tree: tree, pattern: pattern, hidden: options.Hidden,
		maxFiles: cmp.Or(max(options.MaxFiles, 0), DefaultMaxFiles), maxSize: cmp.Or(max(options.MaxSize, 0), DefaultMaxSize),
		base: strings.TrimSuffix(listing.URI, "/") + "/",
	}
	template := server.Template{
		URITemplate: d.base + "{+path}", Name: cmp.Or(listing.Name, "file"), Title: listing.Title,
		Description: "A file that " + listing.URI + " lists, by its path.",
		Annotations: listing.Annotations, Icons: listing.Icons, Guards: listing.Guards, CallMiddleware: listing.CallMiddleware,
		Scopes: listing.Scopes, Metadata: listing.Metadata,
	}
	listing.Name = cmp.Or(listing.Name, "files")
	listing.MIMEType = cmp.Or(listing.MIMEType, "application/json")
	if listing.Description == "" {
		listing.Description = "The paths of the files, as a JSON array."
		if !options.ListOnly {
			listing.Description += " Each is read at " + template.URITemplate + "."
		}
	}

	list, err := server.NewResource(listing, func(ctx context.Context, _ *server.Request) ([]string, error) {
		names, err := d.names(ctx)
		if err != nil {
			return nil, readError(listing.URI, err)
		}
		return names, nil
	})
	if err != nil {
		return nil, err
	}
	list = withWatched(list, &watched{list: listing.URI, readable: !options.ListOnly, look: d.stamps})
	if options.ListOnly {
		return []*server.Entry{list}, nil
	}
	read, err := server.NewTemplate(template, d.read)
	if err != nil {
		return nil, err
	}
	return []*server.Entry{list, read}, nil
}

type pathVariable struct {
	Path string `json:"path"`
}

// read answers for one file.
func (d *directory) read(_ context.Context, r *server.Request, vars pathVariable) (mcp.ResourceContents, error) {
	uri := jsonscan.Unquote(r.Call().Member("uri")) // as it was asked for
	if !d.offers(vars.Path) {
		return nil, mcp.ResourceNotFound(uri)
	}
	f, err := d.tree.openFile(vars.Path)
	if err != nil {
		return nil, readError(uri, err)
	}
	defer f.Close()
	data, err := readFile(f, d.maxSize)
	if err != nil {
		return nil, readError(uri, err)
	}
	return contentsOf(uri, typeOf(vars.Path), data), nil
}

// offers decides what is listed and what is read, as far as names tell.
func (d *directory) offers(name string) bool {
	return isName(name) && (d.hidden || !isHidden(name)) && d.pattern.matches(name)
}
