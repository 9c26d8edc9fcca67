package resources

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/internal/filetree"
)

// DirectoryOptions configure [Directory] and [FS]. The zero value is ready to use.
type DirectoryOptions struct {
	// Resource describes the listing. Its default URI is file:///, its default Name is
	// "files". The URIs of the files begin with its URI and a slash. Its Name, Title,
	// Annotations, Icons, Scopes, Metadata, Guards and CallMiddleware apply to the template,
	// too.
	server.Resource
	// Pattern selects files by their paths, with slashes on every system. The syntax is
	// the syntax of path.Match, with ** for any number of directories and {a,b} for
	// alternatives. An element has at most four braces. The default "*" selects the files
	// of the directory itself, "**" all files below it.
	Pattern string
	// Hidden includes files with a path element that begins with a dot.
	Hidden bool
	// ListOnly omits the template: files can be listed, but not read.
	ListOnly bool
	// MaxFiles is the maximum number of files in the listing. Listing more is an error.
	// Default 10,000.
	MaxFiles int
	// MaxSize is the size of the largest file that can be read, in bytes. Default
	// 10 MiB.
	MaxSize int64
}

// Directory returns a resource that lists the regular files below root, as a JSON array of
// sorted relative paths with slashes, and a template that reads them. The URI of a file is the
// listing's URI, a slash and the percent-encoded path.
//
// Not offered are symbolic links, files whose names are not UTF-8 or contain a backslash, and
// files more than 64 levels down. The error says that root is nil or the pattern is invalid.
func Directory(root *os.Root, opts *DirectoryOptions) ([]*server.Entry, error) {
	if root == nil {
		return nil, errNoRoot
	}
	return entries(filetree.Root(root), opts)
}

// FS is [Directory] for a file system, such as an embed.FS. Use Directory for a directory of
// the operating system, because os.DirFS follows links that lead out of it.
func FS(fsys fs.FS, opts *DirectoryOptions) ([]*server.Entry, error) {
	if fsys == nil {
		return nil, errNoRoot
	}
	return entries(filetree.FS(fsys), opts)
}

// A directory is a tree and the selection of its files.
type directory struct {
	tree     filetree.Tree
	pattern  pattern
	hidden   bool
	maxFiles int
	maxSize  int64
	base     string // prefix of the files' URIs
}

func entries(tree filetree.Tree, opts *DirectoryOptions) ([]*server.Entry, error) {
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
		maxFiles: cmp.Or(max(options.MaxFiles, 0), defaultMaxFiles), maxSize: cmp.Or(max(options.MaxSize, 0), defaultMaxSize),
		base: strings.TrimSuffix(listing.URI, "/") + "/",
	}
	template := server.Template{
		URITemplate: d.base + "{+path}", Name: cmp.Or(listing.Name, "file"), Title: listing.Title,
		Description: "A file listed by " + listing.URI + ", by its path.",
		Annotations: listing.Annotations, Icons: listing.Icons, Guards: listing.Guards, CallMiddleware: listing.CallMiddleware,
		Scopes: listing.Scopes, Metadata: listing.Metadata,
	}
	listing.Name = cmp.Or(listing.Name, "files")
	listing.MIMEType = cmp.Or(listing.MIMEType, "application/json")
	if listing.Description == "" {
		listing.Description = "The paths of the files, as a JSON array."
		if !options.ListOnly {
			listing.Description += " Read a file at " + template.URITemplate + "."
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
	list = withFileSet(list, &fileSet{listing: listing.URI, readable: !options.ListOnly, scan: d.versions})
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

func (d *directory) read(_ context.Context, r *server.Request, vars pathVariable) (mcp.ResourceContents, error) {
	uri := jsonscan.Unquote(r.Call().Member("uri")) // as the client has spelled it
	if !d.offers(vars.Path) {
		return nil, mcp.ResourceNotFound(uri)
	}
	f, err := d.tree.OpenFile(vars.Path)
	if err != nil {
		return nil, readError(uri, err)
	}
	defer f.Close()
	data, err := filetree.Read(f, d.maxSize)
	if err != nil {
		return nil, readError(uri, err)
	}
	return filetree.Contents(uri, filetree.MediaType(vars.Path), data), nil
}

// offers reports whether a file with this name may be listed and read.
func (d *directory) offers(name string) bool {
	return filetree.IsName(name) && (d.hidden || !filetree.IsHidden(name)) && d.pattern.matches(name)
}

// names returns the sorted paths of all offered files.
func (d *directory) names(ctx context.Context) ([]string, error) {
	names := []string{}
	err := d.walk(ctx, func(name string, _ fs.DirEntry) { names = append(names, name) })
	slices.Sort(names)
	return names, err
}

// versions returns the versions of all offered files, by URI.
func (d *directory) versions(ctx context.Context) (map[string]version, error) {
	versions := make(map[string]version)
	err := d.walk(ctx, func(name string, entry fs.DirEntry) {
		if info, err := entry.Info(); err == nil { // fails if the file was removed
			versions[filetree.URI(d.base, name)] = versionOf(info)
		}
	})
	return versions, err
}

// walk visits all offered files.
func (d *directory) walk(ctx context.Context, visit func(name string, entry fs.DirEntry)) error {
	files, bytes, visited := 0, 0, 0
	for dirs := []string{"."}; len(dirs) > 0; {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		err := filetree.EachEntry(ctx, d.tree, dir, func(entry fs.DirEntry) error {
			if visited++; visited > maxVisited {
				return errTooBig
			}
			name := path.Join(dir, entry.Name())
			switch {
			case entry.IsDir():
				if d.descends(name) {
					dirs = append(dirs, name)
				}
			case entry.Type().IsRegular() && d.offers(name):
				if files, bytes = files+1, bytes+len(name); files > d.maxFiles || bytes > maxListed {
					return errTooMany
				}
				visit(name, entry)
			}
			return nil
		})
		if dir != "." && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
			continue // a directory that cannot be opened is skipped
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *directory) descends(dir string) bool {
	return filetree.IsName(dir) && (d.hidden || !filetree.IsHidden(dir)) && d.pattern.leadsBelow(dir)
}

// A listing that exceeds a limit fails, because an incomplete list would be misleading.
var (
	errTooMany = errors.New("it has too many files; use a narrower pattern")
	errTooBig  = errors.New("it has too many entries to search")
)
