package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/workspace"
)

// browserFolder is the folder of the workspace for copies of the browser's files.
const browserFolder = ".browser"

const (
	maxBrowserFiles = 500      // files in browserFolder
	maxBrowserBytes = 64 << 20 // bytes of all of them
	maxBrowserFile  = 16 << 20 // bytes of one file that is copied
	maxFolders      = 16       // folders in the name of a file
	maxNames        = 1000     // copies of one name, such as report-2.pdf
	maxCopied       = 100      // files of one result; a page may start any number of downloads
	maxNotCopied    = 10       // files that a result names because they could not be copied
)

// browserFiles copies the files that the browser's results name into the workspace, where the tools for files can read
// them. The browser itself never writes there, because it would follow links of the workspace.
type browserFiles struct {
	dir       string               // where the browser writes
	source    *workspace.Workspace // dir
	workspace *workspace.Workspace

	maxFiles int
	maxBytes int64

	mu   sync.Mutex
	made map[string]browserCopy // by the name in the workspace
}

// A browserCopy identifies the content of a copy. A file that differs from it has been changed by somebody else.
type browserCopy struct {
	size     int64
	modified time.Time
}

func openBrowserFiles(dir string, files *workspace.Workspace) (*browserFiles, error) {
	source, err := workspace.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	return &browserFiles{
		dir: source.Dir(), source: source, workspace: files,
		maxFiles: maxBrowserFiles, maxBytes: maxBrowserBytes, made: make(map[string]browserCopy),
	}, nil
}

// middleware copies the files of each result, and replaces their names by those of the copies.
func (f *browserFiles) middleware(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		result, err := next(ctx, call)
		raw, ok := result.(mcp.Raw)
		if err != nil || !ok {
			return result, err
		}
		var decoded mcp.CallToolResult
		if decoded.UnmarshalJSON(raw) != nil || !f.copyNamed(ctx, &decoded) {
			return result, nil
		}
		return &decoded, nil
	}
}

// copyNamed reports whether it has changed the result.
func (f *browserFiles) copyNamed(ctx context.Context, result *mcp.CallToolResult) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := copying{browserFiles: f, ctx: ctx, copies: make(map[string]string)}
	for _, block := range result.Content {
		if text, ok := block.(*mcp.TextContent); ok && strings.Contains(text.Text, f.dir) {
			text.Text, changed = c.rename(text.Text), true
		}
	}
	if c.failed > maxNotCopied {
		c.failures = append(c.failures, fmt.Sprintf("%d more files of the browser could not be copied into the workspace.", c.failed-maxNotCopied))
	}
	if len(c.failures) > 0 {
		result.Content = append(result.Content, mcp.Text(strings.Join(c.failures, "\n")))
	}
	return changed
}

// A copying copies the files of one result.
type copying struct {
	*browserFiles
	ctx      context.Context
	copies   map[string]string // the file that a result gets instead, by the name in the browser's folder
	failures []string
	failed   int
}

// rename copies the files that a text names, and returns the text with the names of the copies.
func (c *copying) rename(text string) string {
	var renamed strings.Builder
	before, rest, found := strings.Cut(text, c.dir+string(filepath.Separator))
	for found {
		renamed.WriteString(before)
		name := c.nameIn(rest)
		renamed.WriteString(c.copy(name))
		before, rest, found = strings.Cut(rest[len(name):], c.dir+string(filepath.Separator))
	}
	renamed.WriteString(before)
	return strings.ReplaceAll(renamed.String(), c.dir, browserFolder) // the folder itself, in errors
}

// nameIn returns the name of a file in the browser's folder with which a text begins, or "". The text goes on with the end
// of a link, a quotation mark, or the lines of a log, as in console.log#L3-L5. A name may contain these characters.
func (f *browserFiles) nameIn(text string) string {
	const longest, attempts = 4096, 16
	name, _, _ := strings.Cut(text[:min(len(text), longest)], "\n")
	for range attempts {
		if info, err := f.source.Stat(name); err == nil && !info.IsDir() {
			return name
		}
		end := strings.LastIndexAny(name, `)"#`)
		if end < 0 {
			break
		}
		name = name[:end]
	}
	return ""
}

// copy copies a file once, and returns its name for the result: the name of the copy, or, with the reason in failures, the
// name that it has in the browser's folder.
func (c *copying) copy(name string) string {
	if name == "" {
		return browserFolder + "/"
	}
	shown, done := c.copies[name]
	if done {
		return shown
	}
	shown, err := c.write(name)
	if err != nil {
		shown = name
		if c.failed++; c.failed <= maxNotCopied {
			c.failures = append(c.failures, fmt.Sprintf("The browser's file %q could not be copied into the workspace: %v.", name, err))
		}
	}
	c.copies[name] = shown
	return shown
}

// write writes the copy of a file, and returns its name in the workspace.
func (c *copying) write(name string) (string, error) {
	switch {
	case len(c.copies) >= maxCopied:
		return "", fmt.Errorf("the result names more than %d files", maxCopied)
	case strings.ContainsFunc(name, unicode.IsControl):
		return "", errors.New("its name has control characters")
	case strings.Count(filepath.ToSlash(name), "/") > maxFolders: // makeRoom does not count files at any depth
		return "", fmt.Errorf("its name has more than %d folders", maxFolders)
	}
	data, err := c.source.ReadFile(name, maxBrowserFile)
	if err != nil {
		return "", err
	}
	if _, err := c.workspace.Stat(browserFolder); errors.Is(err, fs.ErrNotExist) {
		// Only a new folder is hidden from git. Another one may have files of the repository.
		if _, err := c.workspace.WriteFile(browserFolder+"/.gitignore", []byte("*\n")); err != nil {
			return "", err
		}
	}
	if err := c.makeRoom(int64(len(data))); err != nil {
		return "", err
	}
	target, err := c.freeName(path.Join(browserFolder, filepath.ToSlash(name)))
	if err != nil {
		return "", err
	}
	if _, err := c.workspace.WriteFile(target, data); err != nil {
		return "", err
	}
	info, err := c.workspace.Stat(target)
	if err != nil {
		return "", err
	}
	c.made[target] = browserCopy{info.Size(), info.ModTime()}
	return target, nil
}

// freeName returns a name that belongs to no file, or to a copy that nobody has changed. Pages choose the names of
// downloads, which must not replace a file of the user.
func (f *browserFiles) freeName(name string) (string, error) {
	extension := path.Ext(name)
	for i := 1; i <= maxNames; i++ {
		free := name
		if i > 1 {
			free = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, extension), i, extension)
		}
		info, err := f.workspace.Stat(free)
		if errors.Is(err, fs.ErrNotExist) || err == nil && f.isCopy(free, info) {
			return free, nil
		}
		if err != nil && !errors.Is(err, workspace.ErrOutside) {
			return "", err
		}
	}
	return "", fs.ErrExist
}

// isCopy reports whether a file is a copy of this process that nobody has changed.
func (f *browserFiles) isCopy(name string, info fs.FileInfo) bool {
	made, ok := f.made[name]
	return ok && made.size == info.Size() && made.modified.Equal(info.ModTime())
}

// ownNames are the names that the Playwright MCP server gives to snapshots, screenshots and logs. Files with these names
// are copies of an earlier run.
var ownNames = regexp.MustCompile(`^` + regexp.QuoteMeta(browserFolder) + `/(page|console)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z\.(yml|log|png|jpeg|webp)$`)

// makeRoom removes the oldest copies, so that there is room for one more file of a size. It removes no files of others, nor
// those of the same result.
func (c *copying) makeRoom(size int64) error {
	type file struct {
		name string
		info fs.FileInfo
	}
	var files []file
	var total int64
	found := make(map[string]bool)
	complete, err := c.workspace.Walk(c.ctx, browserFolder, func(name string, entry fs.DirEntry) error {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, file{name, info})
			found[name] = true
			total += info.Size()
		}
		if len(files) > 10*c.maxFiles {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return err
	}
	maps.DeleteFunc(c.made, func(name string, _ browserCopy) bool { return !found[name] })
	slices.SortFunc(files, func(a, b file) int { return a.info.ModTime().Compare(b.info.ModTime()) })
	kept := slices.Collect(maps.Values(c.copies))
	number := len(files)
	full := func() bool { return number >= c.maxFiles || total+size > c.maxBytes }
	for _, oldest := range files {
		if !full() {
			break
		}
		if slices.Contains(kept, oldest.name) || !c.isCopy(oldest.name, oldest.info) && !ownNames.MatchString(oldest.name) {
			continue
		}
		if err := c.workspace.Remove(oldest.name, false); err != nil {
			return err
		}
		number--
		total -= oldest.info.Size()
	}
	if full() || !complete {
		return fmt.Errorf("%s is full, with %d files of %d bytes: delete some of them", browserFolder, number, total)
	}
	return nil
}

func (f *browserFiles) close() error { return f.source.Close() }

// browserRoot answers the Playwright MCP server that its folder is the only one. It resolves the file names of calls
// against the first root, which would be a folder of the client's user.
type browserRoot struct {
	jsonrpc.Handler
	dir string
}

// Handle answers a request of the server.
func (h browserRoot) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method != mcp.MethodRootsList {
		return h.Handler.Handle(ctx, from, req, reply)
	}
	dir := filepath.ToSlash(h.dir)
	if !strings.HasPrefix(dir, "/") {
		dir = "/" + dir // on Windows
	}
	root := url.URL{Scheme: "file", Path: dir}
	return reply.Write(&mcp.ListRootsResult{Roots: []mcp.Root{{URI: root.String()}}})
}

// NotifyCancelled notifies the server that a call is abandoned.
func (h browserRoot) NotifyCancelled(to jsonrpc.Peer, id jsonrpc.ID, cause error) {
	if notifier, ok := h.Handler.(jsonrpc.CancelNotifier); ok {
		notifier.NotifyCancelled(to, id, cause)
	}
}
