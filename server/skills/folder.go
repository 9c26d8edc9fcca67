package skills

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/internal/filetree"
)

// Defaults of options.
const (
	// defaultURI begins the URIs of the files.
	defaultURI = "skill://"
	// defaultMaxSkills is the maximum number of skills of a folder.
	defaultMaxSkills = 1000
	// defaultInterval is the time between two scans of a folder that is mounted.
	defaultInterval = 2 * time.Second
)

// Options configure [Directory] and [FS]. The zero value is ready to use.
type Options struct {
	// URI begins the URIs of the files; their paths in the folder follow. It ends with a slash. A
	// folder that is itself a skill needs one that ends with the name of the skill, such as
	// skill://git-workflow/. Default: "skill://".
	URI string
	// MaxSkills is the maximum number of skills. More are an error. Default: 1000.
	MaxSkills int
	// Interval is the time between two scans while the folder is mounted. A scan reads a file
	// only if its size or modification time has changed. Negative: the folder is scanned by
	// [Folder.Reload] only. Default: 2 s.
	Interval time.Duration
	// CacheHint says how long, and for whom, clients may cache the files and the answers to
	// skills/get. By default they may not.
	CacheHint mcp.CacheHint
	// Logger receives the errors of scans in the interval. Default: slog.Default().
	Logger *slog.Logger
}

// A Folder is a folder of skills. It is a [server.Provider] for one mount. Make one with [Directory]
// or [FS]. Its methods may be called concurrently.
type Folder struct {
	tree    filetree.Tree
	opts    Options
	catalog atomic.Pointer[server.Catalog]

	mu      sync.Mutex // one scan at a time
	files   map[string]*file
	changed func(mcp.Change) // nil: not mounted
}

var _ server.Provider = (*Folder)(nil)

// Directory returns the skills below root. opts may be nil. The error says why root cannot be read,
// or which skill is invalid, then a *[mcp.SkillError].
func Directory(root *os.Root, opts *Options) (*Folder, error) {
	if root == nil {
		return nil, errNoRoot
	}
	return open(filetree.Root(root), opts)
}

// FS is [Directory] for a file system, such as an embed.FS. Use Directory for a directory of the
// operating system, because os.DirFS follows links that lead out of it.
func FS(fsys fs.FS, opts *Options) (*Folder, error) {
	if fsys == nil {
		return nil, errNoRoot
	}
	return open(filetree.FS(fsys), opts)
}

var errNoRoot = errors.New("skills: the root is nil")

func open(tree filetree.Tree, opts *Options) (*Folder, error) {
	f := &Folder{tree: tree}
	if opts != nil {
		f.opts = *opts
	}
	f.opts.URI = cmp.Or(f.opts.URI, defaultURI)
	f.opts.MaxSkills = cmp.Or(max(f.opts.MaxSkills, 0), defaultMaxSkills)
	f.opts.Interval = cmp.Or(f.opts.Interval, defaultInterval)
	f.opts.Logger = cmp.Or(f.opts.Logger, slog.Default())
	if _, err := url.Parse(f.opts.URI + "x"); err != nil || !strings.Contains(f.opts.URI, "://") || !strings.HasSuffix(f.opts.URI, "/") {
		return nil, errors.New("skills: Options.URI must be like skill:// or skill://acme/")
	}
	f.catalog.Store(server.NewCatalog(nil, nil))
	if err := f.scan(context.Background(), true); err != nil {
		return nil, err
	}
	return f, nil
}

// Catalog returns the skills and the resources of their files, as of the last scan.
func (f *Folder) Catalog() *server.Catalog { return f.catalog.Load() }

// Run scans the folder in the interval of the options until ctx ends.
func (f *Folder) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	f.setChanged(changed)
	defer f.setChanged(nil)
	ready()
	if f.opts.Interval < 0 {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(f.opts.Interval)
	defer ticker.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := f.scan(ctx, false)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			last = ""
		case err.Error() != last:
			last = err.Error()
			f.opts.Logger.Warn("a folder of skills is not valid; the last valid state is served", "error", err)
		}
	}
}

func (f *Folder) setChanged(changed func(mcp.Change)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = changed
}

// Reload scans the folder now, and reads every file. After an error, which is as for [Directory],
// nothing has changed.
func (f *Folder) Reload(ctx context.Context) error { return f.scan(ctx, true) }

// scan reads the folder and offers what it has. Unless all is true, files of equal size and
// modification time are not read again.
func (f *Folder) scan(ctx context.Context, all bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.files
	if all {
		known = nil
	}
	s := &scan{folder: f, known: known}
	if err := s.run(ctx); err != nil {
		return err
	}
	before := f.catalog.Load()
	entries, same, err := s.entries(before)
	if err != nil {
		return err
	}
	var updated []string
	for name, old := range f.files {
		if now := s.files[name]; now == nil || now.digest != old.digest {
			updated = append(updated, f.uri(name))
		}
	}
	f.files = s.files
	if same {
		return nil
	}
	f.catalog.Store(server.NewCatalog(entries, nil))
	if f.changed == nil {
		return nil
	}
	f.changed(mcp.Change{Kind: mcp.KindResource})
	slices.Sort(updated)
	for _, uri := range updated {
		f.changed(mcp.Change{Kind: mcp.KindResource, URI: uri})
	}
	return nil
}

// uri returns the URI of a file.
func (f *Folder) uri(name string) string { return filetree.URI(f.opts.URI, name) }
