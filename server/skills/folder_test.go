package skills_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/skills"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// skillFile returns a SKILL.md.
func skillFile(name string) string {
	return "---\nname: " + name + "\ndescription: About " + name + "\n---\nText.\n"
}

func fileSystem(files map[string]string) fstest.MapFS {
	fsys := make(fstest.MapFS)
	for name, content := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return fsys
}

// A rig is a folder that is mounted on a server, with a client.
type rig struct {
	folder  *skills.Folder
	session *client.Session
	changes chan mcp.Change
}

// serve mounts a folder. Nothing is scanned by itself unless opts say so.
func serve(t *testing.T, folder *skills.Folder, err error) *rig {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	if err := s.Mount(folder, nil); err != nil {
		t.Fatal(err)
	}
	r := &rig{folder: folder, changes: make(chan mcp.Change, 100)}
	r.session, err = client.Connect(t.Context(), transport.Pipe(s), &client.Options{
		Era: client.Modern, OnChange: func(_ context.Context, change mcp.Change) { r.changes <- change },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.session.Close(), s.Shutdown(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return r
}

var manual = &skills.Options{Interval: -1}

// listed returns the skills, with the paths of their files.
func (r *rig) listed(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	for skill, err := range r.session.Skills(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if err := skill.Validate(); err != nil {
			t.Error(err)
		}
		for _, file := range skill.Resources {
			all[skill.URI] = append(all[skill.URI], strings.TrimPrefix(file.URI, skill.Root()+"/"))
		}
	}
	return all
}

func TestFolder(t *testing.T) {
	files := map[string]string{
		"README.md": "not in a skill", "pdf/SKILL.md": skillFile("pdf"), "pdf/ref/a b.md": "# A", "pdf/ref/data.bin": "\x00\xff", "pdf/.env": "hidden", "pdf/.git/config": "hidden",
		"acme/billing/refunds/SKILL.md": skillFile("refunds"), "acme/billing/other.md": "not in a skill",
		"pdf/nested/SKILL.md": skillFile("nested"), "pdf/nested/more.txt": "more", `pdf/back\slash`: "not offered",
	}
	want := map[string][]string{
		"skill://pdf/SKILL.md":                  {"SKILL.md", "nested/SKILL.md", "nested/more.txt", "ref/a%20b.md", "ref/data.bin"},
		"skill://pdf/nested/SKILL.md":           {"SKILL.md", "more.txt"},
		"skill://acme/billing/refunds/SKILL.md": {"SKILL.md"},
	}
	folder, err := skills.FS(fileSystem(files), manual)
	r := serve(t, folder, err)
	if got := r.listed(t); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("listed %q\nwant %q", got, want)
	}
	skill, err := r.session.GetSkill(t.Context(), "skill://pdf/SKILL.md", nil)
	if err != nil || string(skill.Frontmatter) != `{"name":"pdf","description":"About pdf"}` {
		t.Errorf("the skill %+v, %v", skill, err)
	}
	for _, file := range skill.Resources {
		name := strings.ReplaceAll(strings.TrimPrefix(file.URI, "skill://"), "%20", " ")
		if want := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(files[name]))); file.Digest != want || file.Size != int64(len(files[name])) {
			t.Errorf("%s: %+v, want %s", name, file, want)
		}
		result, err := r.session.ReadResource(t.Context(), file.URI, nil)
		if err != nil || len(result.Contents) != 1 {
			t.Errorf("%s: %+v, %v", name, result, err)
			continue
		}
		var content []byte
		switch contents := result.Contents[0].(type) {
		case *mcp.TextResourceContents:
			content = []byte(contents.Text)
		case *mcp.BlobResourceContents:
			content = contents.Blob
		}
		if string(content) != files[name] {
			t.Errorf("%s: %q", name, content)
		}
	}
	var resources []string
	for resource, err := range r.session.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		resources = append(resources, fmt.Sprint(resource.URI, " ", resource.Name, " ", resource.MIMEType, " ", resource.Description, " ", *resource.Size))
	}
	if got, want := resources, []string{
		"skill://acme/billing/refunds/SKILL.md refunds text/markdown About refunds 55", "skill://pdf/SKILL.md pdf text/markdown About pdf 47",
		"skill://pdf/nested/SKILL.md nested text/markdown About nested 53", "skill://pdf/nested/more.txt more.txt text/plain  4",
		"skill://pdf/ref/a%20b.md a b.md text/markdown  3", "skill://pdf/ref/data.bin data.bin   2",
	}; !slices.Equal(got, want) {
		t.Errorf("resources\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, uri := range []string{"skill://pdf/.env", "skill://README.md", "skill://pdf/ref/../.env", "skill://pdf/ref/a b.md", "skill://acme/billing/other.md", "skill://pdf/ref"} {
		if _, err := r.session.ReadResource(t.Context(), uri, nil); !mcp.IsResourceNotFound(err) {
			t.Errorf("%s: %v, want that it does not exist", uri, err)
		}
	}
}

// A folder that is a skill itself needs a URI with the name.
func TestFolderURI(t *testing.T) {
	fsys := fileSystem(map[string]string{"SKILL.md": skillFile("pdf"), "a.md": "a"})
	folder, err := skills.FS(fsys, &skills.Options{URI: "docs://acme/pdf/", Interval: -1})
	want := map[string][]string{"docs://acme/pdf/SKILL.md": {"SKILL.md", "a.md"}}
	if got := serve(t, folder, err).listed(t); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("listed %q, want %q", got, want)
	}
	if _, err := skills.FS(fsys, nil); !isSkillError(err) {
		t.Errorf("without a name: %v", err)
	}
	for _, uri := range []string{"docs:", "docs://acme", "acme/", "docs://a:b/"} {
		if _, err := skills.FS(fstest.MapFS{}, &skills.Options{URI: uri}); err == nil {
			t.Errorf("the URI %q was accepted", uri)
		}
	}
}

func isSkillError(err error) bool {
	_, ok := errors.AsType[*mcp.SkillError](err)
	return ok
}

func TestInvalidFolders(t *testing.T) {
	many := map[string]string{"a/SKILL.md": skillFile("a")}
	for i := range mcp.MaxSkillResources {
		many[fmt.Sprintf("a/%d", i)] = ""
	}
	large := map[string]string{"a/SKILL.md": skillFile("a"), "a/x": string(make([]byte, mcp.MaxSkillBytes))}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"another name":     {map[string]string{"a/SKILL.md": skillFile("b")}, "must be equal"},
		"bad name":         {map[string]string{"a_b/SKILL.md": skillFile("a_b")}, "1 to 64"},
		"no front matter":  {map[string]string{"a/SKILL.md": "text"}, "does not begin"},
		"no name":          {map[string]string{"a/SKILL.md": "---\ndescription: d\n---\n"}, "1 to 64"},
		"no description":   {map[string]string{"a/SKILL.md": "---\nname: a\n---\n"}, "no description"},
		"long description": {map[string]string{"a/SKILL.md": "---\nname: a\ndescription: " + strings.Repeat("x", 1025) + "\n---\n"}, "1025 characters"},
		"not UTF-8":        {map[string]string{"a/SKILL.md": skillFile("a") + "\xff"}, "UTF-8"},
		"too many files":   {many, "more than 512 files"},
		"too large":        {large, "more than 16777216 bytes"},
		"nested":           {map[string]string{"a/SKILL.md": skillFile("a"), "a/b/SKILL.md": "x"}, "skill://a/b/SKILL.md"},
	} {
		if _, err := skills.FS(fileSystem(c.files), nil); !isSkillError(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	two := fileSystem(map[string]string{"a/SKILL.md": skillFile("a"), "b/SKILL.md": skillFile("b")})
	if _, err := skills.FS(two, &skills.Options{MaxSkills: 1}); err == nil || !strings.Contains(err.Error(), "2 skills") {
		t.Errorf("too many skills: %v", err)
	}
	if _, err := skills.FS(nil, nil); err == nil {
		t.Error("no file system was accepted")
	}
	if _, err := skills.Directory(nil, nil); err == nil {
		t.Error("no root was accepted")
	}
	wide := make(fstest.MapFS)
	for i := range 100_001 {
		wide[fmt.Sprint(i)] = &fstest.MapFile{}
	}
	if _, err := skills.FS(wide, nil); err == nil || !strings.Contains(err.Error(), "100000") {
		t.Errorf("too many files: %v", err)
	}
}

// A SkillError names the skill, and the file if it is about one.
func TestSkillErrors(t *testing.T) {
	large := make([]byte, mcp.MaxSkillBytes)
	for name, c := range map[string]struct {
		files       map[string]string
		skill, file string
	}{
		"front matter": {map[string]string{"a/SKILL.md": "text"}, "skill://a/SKILL.md", "skill://a/SKILL.md"},
		"nested":       {map[string]string{"a/SKILL.md": skillFile("a"), "a/b/SKILL.md": "text"}, "skill://a/b/SKILL.md", "skill://a/b/SKILL.md"},
		"unreadable":   {map[string]string{"a/SKILL.md": skillFile("a"), "a/docs/x.md": "locked"}, "skill://a/SKILL.md", "skill://a/docs/x.md"},
		"description":  {map[string]string{"a/SKILL.md": "---\nname: a\ndescription: " + strings.Repeat("x", 1025) + "\n---\n"}, "skill://a/SKILL.md", ""},
		"too large":    {map[string]string{"a/SKILL.md": skillFile("a"), "a/x": string(large)}, "skill://a/SKILL.md", ""},
	} {
		_, err := skills.FS(lockedFS{fileSystem(c.files)}, nil)
		failed, ok := errors.AsType[*mcp.SkillError](err)
		if !ok || failed.Skill != c.skill || failed.File != c.file {
			t.Errorf("%s: %#v, want the skill %q and the file %q", name, err, c.skill, c.file)
		}
	}
}

// A lockedFS is a file system in which docs/x.md cannot be opened.
type lockedFS struct{ fstest.MapFS }

func (f lockedFS) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, "docs/x.md") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return f.MapFS.Open(name)
}

// directory creates a directory with files, and returns its root.
func directory(t *testing.T, files map[string]string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		write(t, filepath.Join(dir, filepath.FromSlash(name)), content)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(content), 0o666)); err != nil {
		t.Fatal(err)
	}
}

// Links do not exist: neither when the folder is scanned nor when a file is replaced by one later.
func TestLinks(t *testing.T) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "secret"), "secret")
	write(t, filepath.Join(outside, "evil", "SKILL.md"), skillFile("evil"))
	root := directory(t, map[string]string{"pdf/SKILL.md": skillFile("pdf"), "pdf/a.md": "a", "pdf/sub/b.md": "b"})
	for link, target := range map[string]string{"pdf/out.md": filepath.Join(outside, "secret"), "pdf/in.md": "a.md", "pdf/up": "..", "evil": filepath.Join(outside, "evil")} {
		if err := os.Symlink(target, filepath.Join(root.Name(), link)); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := skills.Directory(root, manual)
	r := serve(t, folder, err)
	want := map[string][]string{"skill://pdf/SKILL.md": {"SKILL.md", "a.md", "sub/b.md"}}
	if got := r.listed(t); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("listed %q, want %q", got, want)
	}
	for name, target := range map[string]string{"pdf/a.md": filepath.Join(outside, "secret"), "pdf/sub": outside} {
		name := filepath.Join(root.Name(), name)
		if err := errors.Join(os.RemoveAll(name), os.Symlink(target, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(outside, "b.md"), "secret")
	for _, uri := range []string{"skill://pdf/a.md", "skill://pdf/sub/b.md"} {
		if result, err := r.session.ReadResource(t.Context(), uri, nil); !mcp.IsResourceNotFound(err) {
			t.Errorf("%s: %+v, %v, want that it does not exist", uri, result, err)
		}
	}
}

// changed returns the changes that have come so far.
func (r *rig) changed() (all []string) {
	synctest.Wait()
	for {
		select {
		case change := <-r.changes:
			all = append(all, strings.TrimSpace(change.Kind.String()+" "+change.URI))
		default:
			slices.Sort(all)
			return all
		}
	}
}

func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := fileSystem(map[string]string{"a/SKILL.md": skillFile("a"), "a/x.md": "x", "b/SKILL.md": skillFile("b")})
		folder, err := skills.FS(fsys, manual)
		r := serve(t, folder, err)
		if _, err := r.session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourcesListChanged: true, ResourceSubscriptions: []string{"skill://a/x.md", "skill://b/SKILL.md"}}); err != nil {
			t.Fatal(err)
		}
		before := folder.Catalog()
		for _, step := range []struct {
			name   string
			change func()
			want   []string
		}{
			{"nothing", func() {}, nil},
			{"content of equal size", func() { fsys["a/x.md"].Data = []byte("y") }, []string{"resource", "resource skill://a/x.md"}},
			{"two changes", func() {
				fsys["c/SKILL.md"] = &fstest.MapFile{Data: []byte(skillFile("c"))}
				delete(fsys, "b/SKILL.md")
			}, []string{"resource", "resource skill://b/SKILL.md"}},
		} {
			step.change()
			if err := folder.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := r.changed(); !slices.Equal(got, step.want) {
				t.Errorf("%s: %q, want %q", step.name, got, step.want)
			}
			if step.want == nil && folder.Catalog() != before {
				t.Errorf("%s: another catalog", step.name)
			}
		}
		if same := folder.Catalog().Lookup(mcp.KindResource, "skill://a/SKILL.md"); same != before.Lookup(mcp.KindResource, "skill://a/SKILL.md") {
			t.Error("an entry that has not changed is another one")
		}
		valid := folder.Catalog()
		fsys["c/SKILL.md"].Data = []byte("no front matter")
		if err := folder.Reload(t.Context()); !isSkillError(err) || folder.Catalog() != valid || len(r.changed()) > 0 {
			t.Errorf("an invalid skill: %v", err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := folder.Reload(cancelled); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// A countingFS counts how often files are opened. Its files may be replaced concurrently.
type countingFS struct {
	mu     sync.Mutex
	files  fstest.MapFS
	opened map[string]int
}

func (c *countingFS) Open(name string) (fs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened[name]++
	return c.files.Open(name)
}

// count returns how often a file was opened.
func (c *countingFS) count(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened[name]
}

func (c *countingFS) replace(name, content string, modified int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files[name] = &fstest.MapFile{Data: []byte(content), ModTime: time.Unix(modified, 0)}
}

// While a folder is mounted it is scanned in an interval. Files that look the same are not read.
func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := fileSystem(map[string]string{"a/SKILL.md": skillFile("a"), "a/x.md": "x"})
		counting := &countingFS{files: fsys, opened: make(map[string]int)}
		var log bytes.Buffer
		folder, err := skills.FS(counting, &skills.Options{Interval: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		r := serve(t, folder, err)
		if _, err := r.session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourcesListChanged: true}); err != nil {
			t.Fatal(err)
		}
		first, scans := counting.count("a/x.md"), counting.count(".")
		<-time.After(3500 * time.Millisecond)
		if got := r.changed(); got != nil || counting.count("a/x.md") != first || counting.count(".") != scans+3 {
			t.Errorf("without a change: %q, opened %v", got, counting.opened)
		}
		counting.replace("a/x.md", "y", 1)
		<-time.After(time.Second)
		if got := r.changed(); !slices.Equal(got, []string{"resource"}) || counting.count("a/x.md") == first {
			t.Errorf("after a change: %q, opened %v", got, counting.opened)
		}
		counting.replace("a/SKILL.md", "invalid", 2)
		<-time.After(3 * time.Second)
		if got := r.changed(); got != nil || strings.Count(log.String(), "does not begin with front matter") != 1 {
			t.Errorf("an invalid folder: %q, logged %s", got, log.String())
		}
		if _, err := r.session.GetSkill(t.Context(), "skill://a/SKILL.md", nil); err != nil {
			t.Errorf("the last valid state is not served: %v", err)
		}
	})
}
