package soak

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/sharedfile"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/oauth"
)

// diskSize is the size of the test's file system, and the maximum size of a file, in bytes.
const diskSize = 1 << 20

// A disk is a folder in which writing can be made to fail.
type disk struct {
	folder string
	// fill makes writing fail, and free ends that.
	fill, free func(t testing.TB)
	// full is the error of a write that fails.
	full error
}

// fullDisks are the ways in which the tests make writing fail.
func fullDisks(t *testing.T) map[string]*disk {
	if os.Getenv(sizeVariable) != "" {
		return map[string]*disk{"file size limit": limitedFiles(t)}
	}
	folder := t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprint("size=", diskSize)); err != nil {
		t.Logf("a file system cannot be mounted here: %v; only TestFileSizeLimit tests writing", err)
		return nil
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, 0); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(folder, "filler")
	return map[string]*disk{"full file system": {folder: folder, full: syscall.ENOSPC, fill: func(t testing.TB) {
		file, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		fill(file, 2*diskSize)
	}, free: func(t testing.TB) {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}}}
}

// sizeVariable is set in the process whose file sizes are limited.
const sizeVariable = "SOAK_FILE_SIZE"

// TestFileSizeLimit runs the tests of full disks in a process of its own, since the limit
// applies to all files of a process.
func TestFileSizeLimit(t *testing.T) {
	if os.Getenv(sizeVariable) != "" {
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk", "-test.v")
	cmd.Env = append(os.Environ(), sizeVariable+"=1", "GORACE=atexit_sleep_ms=0")
	output, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(output), "--- PASS") < 2 {
		t.Errorf("%v\n%s", err, output)
	}
}

// limitedFiles limits the size of all files that this process writes.
func limitedFiles(t *testing.T) *disk {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	set := func(t testing.TB, soft uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: soft, Max: before.Max}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { set(t, before.Cur) })
	return &disk{
		folder: t.TempDir(), full: syscall.EFBIG,
		fill: func(t testing.TB) { set(t, 4) }, free: func(t testing.TB) { set(t, before.Cur) },
	}
}

// A durable is a file whose content must survive a full disk.
type durable struct {
	write func(value string) error
	// read opens the file again and returns the last value that was written.
	read func() (string, error)
}

var key = bytes.Repeat([]byte("k"), 32)

// durables are all kinds of files that the library writes.
var durables = map[string]func(t *testing.T, path string) durable{
	"a replaced file": func(_ *testing.T, path string) durable {
		return durable{
			write: func(value string) error { return sharedfile.Write(path, []byte(value), 0) },
			read: func() (string, error) {
				text, err := os.ReadFile(path)
				return string(text), err
			},
		}
	},
	"tokens": func(t *testing.T, path string) durable {
		store, err := oauth.NewFileStore(path, key)
		if err != nil {
			t.Fatal(err)
		}
		return durable{
			write: func(value string) error { return store.Save(t.Context(), "key", oauth.Secret(value)) },
			read: func() (string, error) {
				again, err := oauth.NewFileStore(path, key)
				if err != nil {
					return "", err
				}
				value, err := again.Load(t.Context(), "key")
				return string(value), err
			},
		}
	},
	"pins": func(t *testing.T, path string) durable {
		lock, err := pin.Load(path)
		if errors.Is(err, os.ErrNotExist) {
			lock, err = pin.NewLock(path), nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return durable{
			write: func(value string) error {
				return errors.Join(lock.Pin("server", pin.Entry{Kind: pin.Tool, Name: "tool"}, pinOf(value)), lock.Save())
			},
			read: func() (string, error) {
				again, err := pin.Load(path)
				if err != nil {
					return "", err
				}
				digest, _ := again.Pinned("server", pin.Entry{Kind: pin.Tool, Name: "tool"})
				return valueOf(digest), nil
			},
		}
	},
	"an approval journal": func(t *testing.T, path string) durable {
		journal, err := approval.OpenJournal(path, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { journal.Close() })
		return durable{
			write: func(value string) error {
				return journal.Append(approval.Entry{Event: "asked", ID: value, Digest: approval.Digest{1}})
			},
			read: func() (string, error) {
				summary, err := approval.Verify(path)
				if err != nil || summary.Torn != 0 {
					return "", fmt.Errorf("%d bytes are torn, %w", summary.Torn, err)
				}
				list := entriesOf(t, readFile(t, path))
				return list[len(list)-1].ID, nil
			},
		}
	},
}

// pinOf returns a digest that contains a value, and valueOf returns the value.
func pinOf(value string) string { return fmt.Sprintf("sha256:%064x", value) }
func valueOf(digest string) string {
	text, err := hex.DecodeString(strings.TrimLeft(strings.TrimPrefix(digest, "sha256:"), "0"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// While a disk is full, writing fails with the reason and what was written before stays as it
// was. When there is space again, writing succeeds.
func TestFullDisk(t *testing.T) {
	for how, d := range fullDisks(t) {
		for name, open := range durables {
			t.Run(how+", "+name, func(t *testing.T) {
				folder := filepath.Join(d.folder, name)
				if err := os.Mkdir(folder, 0o700); err != nil {
					t.Fatal(err)
				}
				file := open(t, filepath.Join(folder, "file"))
				last := ""
				succeeds := func(value string) {
					t.Helper()
					if err := file.write(value); err != nil {
						t.Fatal(err)
					}
					last = value
				}
				succeeds("first")
				succeeds("second")
				d.fill(t)
				failures := 0
				for i := 0; i < 100 && failures < 3; i++ { // there may be space in the last block
					value := fmt.Sprint("value ", i)
					switch err := file.write(value); {
					case err == nil:
						last = value
					case !errors.Is(err, d.full):
						t.Errorf("the error is %v, want %v", err, d.full)
						failures++
					default:
						failures++
					}
				}
				got, err := file.read()
				d.free(t)
				if failures != 3 {
					t.Errorf("writing failed %d times", failures)
				}
				if got != last || err != nil {
					t.Errorf("while the disk is full, the value is %q, %v, want %q", got, err, last)
				}
				succeeds("last")
				if got, err := file.read(); got != last || err != nil {
					t.Errorf("the value is %q, %v, want %q", got, err, last)
				}
				left, err := os.ReadDir(folder)
				left = slices.DeleteFunc(left, func(f os.DirEntry) bool { return f.Name() == "file.lock" })
				if err != nil || len(left) != 1 {
					t.Errorf("the folder has %v, %v", left, err)
				}
			})
		}
	}
}

// While the journal cannot be written, calls that need an approval are refused, and other
// calls are answered. When there is space again, all calls are.
func TestFullDiskOfAGateway(t *testing.T) {
	for how, d := range fullDisks(t) {
		t.Run(how, func(t *testing.T) {
			quiet := slog.New(slog.DiscardHandler)
			journal, err := approval.OpenJournal(filepath.Join(d.folder, "journal"), quiet)
			if err != nil {
				t.Fatal(err)
			}
			defer journal.Close()
			yes := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
				return approval.Answer{Approved: true}, nil
			})
			s := server.New(mcp.Implementation{Name: "gateway", Version: "1"}, &server.Options{Logger: quiet})
			executed := 0
			server.AddTool(s, server.Tool{
				Name:   "write",
				Guards: []mcp.Guard{approval.Guard(askForTools(), yes, &approval.Options{Logger: quiet, Journal: journal})},
			}, func(context.Context, *server.Request, echoIn) (string, error) {
				executed++
				return "written", nil
			})
			server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in echoIn) (string, error) { return in.Nonce, nil })
			session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{NoTasks: true})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			written := func() error {
				_, err := client.CallAs[string](t.Context(), session, "write", echoIn{"x"}, nil)
				return err
			}
			if err := written(); err != nil {
				t.Fatal(err)
			}
			d.fill(t)
			var failure error
			for calls := 0; failure == nil && calls < 100; calls++ { // there may be space in the last block
				failure = written()
			}
			before := executed
			again := written()
			text, other := echoed(t.Context(), session, "echo", "no journal")
			d.free(t)
			for _, err := range []error{failure, again} {
				failed, ok := errors.AsType[*client.ToolError](err)
				if !ok || string(failed.Result.Meta.Get(mcp.MetaRefusal)) != `{"type":"APPROVAL_FAILED"}` {
					t.Errorf("the error is %v, want APPROVAL_FAILED", err)
				}
			}
			if executed != before {
				t.Error("a call was made that could not be recorded")
			}
			if text != "no journal" || other != nil {
				t.Errorf("a call that needs no approval gets %q, %v", text, other)
			}
			if err := written(); err != nil || executed != before+1 {
				t.Errorf("with space again: %v", err)
			}
			if summary, err := approval.Verify(filepath.Join(d.folder, "journal")); err != nil || len(summary.Open) != 0 {
				t.Errorf("Verify: %+v, %v", summary, err)
			}
		})
	}
}

// Files of a read-only file system stay as they were, and writing them fails with the reason. A
// device is no journal.
func TestUnwritableFiles(t *testing.T) {
	if journal, err := approval.OpenJournal("/dev/full", nil); err == nil {
		t.Errorf("a device was opened as a journal: %v", journal.Close())
	}
	for how, d := range fullDisks(t) {
		for name, open := range durables {
			t.Run(how+", "+name, func(t *testing.T) {
				folder := filepath.Join(d.folder, "read-only, "+name)
				if err := os.Mkdir(folder, 0o700); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(folder, "file")
				t.Run("written", func(t *testing.T) { // a journal is closed at its end
					if err := open(t, path).write("before"); err != nil {
						t.Fatal(err)
					}
				})
				remount := func(flags uintptr) {
					t.Helper()
					if err := syscall.Mount("tmpfs", d.folder, "tmpfs", syscall.MS_REMOUNT|flags, ""); err != nil {
						t.Fatal(err)
					}
				}
				remount(syscall.MS_RDONLY)
				defer remount(0)
				if name == "an approval journal" {
					if _, err := approval.OpenJournal(path, nil); !errors.Is(err, syscall.EROFS) {
						t.Errorf("the error is %v, want %v", err, syscall.EROFS)
					}
					return
				}
				file := open(t, path)
				if err := file.write("after"); !errors.Is(err, syscall.EROFS) {
					t.Errorf("the error is %v, want %v", err, syscall.EROFS)
				}
				if got, err := file.read(); got != "before" || err != nil {
					t.Errorf("the value is %q, %v", got, err)
				}
			})
		}
	}
}
