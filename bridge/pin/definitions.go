package pin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/sharedfile"
)

// The folder beside the lock file has the accepted definitions, so that a changed definition can be compared with the accepted
// one after a restart. It is only for people: what may be offered depends on the digests in the lock file.
const (
	folderSuffix     = ".d"
	definitionSuffix = ".json"
	// maxDefinitions is the size of all files in the folder, in bytes. Further definitions are not kept.
	maxDefinitions = 64 << 20
)

// definitionFile returns the name of the file of an accepted definition.
func definitionFile(digest string) string {
	return "sha256-" + strings.TrimPrefix(digest, digestPrefix) + definitionSuffix
}

// digestOfFile is the reverse of definitionFile.
func digestOfFile(name string) (digest string, ok bool) {
	sum, ok := strings.CutPrefix(name, "sha256-")
	digest = digestPrefix + strings.TrimSuffix(sum, definitionSuffix)
	return digest, ok && checkDigest(digest) == nil && definitionFile(digest) == name
}

// keep remembers an accepted definition for the next Save. It locks lock.mu.
func (l *Lock) keep(digest string, definition json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keepLocked(digest, definition)
}

func (l *Lock) keepLocked(digest string, definition json.RawMessage) {
	if l.path == "" || definition == nil || l.written[digest] || l.unwritten[digest] != nil || l.unwrittenBytes+len(definition) > maxDefinitions {
		return
	}
	l.unwrittenBytes += len(definition)
	if l.unwritten == nil {
		l.unwritten = make(map[string]json.RawMessage)
	}
	l.unwritten[digest] = definition
}

// saveDefinitions writes the accepted definitions that have not been written, and with prune removes those that are pinned no
// more. l.saving is locked.
func (l *Lock) saveDefinitions(prune bool) error {
	l.mu.Lock()
	unwritten, pinned := l.unwritten, make(map[string]bool)
	l.unwritten, l.unwrittenBytes = nil, 0
	for _, p := range l.servers {
		for _, digest := range p.digests() {
			pinned[digest] = true
		}
	}
	l.mu.Unlock()
	maps.DeleteFunc(unwritten, func(digest string, _ json.RawMessage) bool { return !pinned[digest] })
	folder := l.path + folderSuffix
	if len(unwritten) > 0 {
		if err := os.Mkdir(folder, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("saving the accepted definitions: %w", err)
		}
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("saving the accepted definitions: %w", err)
	}
	if !prune {
		pinned = nil
	}
	written, err := writeDefinitions(root, unwritten, pinned)
	if err != nil {
		err = fmt.Errorf("saving the accepted definitions: %w", err)
	}
	l.mu.Lock()
	l.written = written
	l.mu.Unlock()
	return errors.Join(err, root.Close())
}

// writeDefinitions writes the unwritten definitions, and removes those that are not pinned unless pinned is nil. It returns the
// digests whose files are in the folder afterwards.
func writeDefinitions(folder *os.Root, unwritten map[string]json.RawMessage, pinned map[string]bool) (written map[string]bool, err error) {
	files, err := fs.ReadDir(folder.FS(), ".")
	if err != nil {
		return nil, err
	}
	written = make(map[string]bool)
	size := int64(0)
	for _, file := range files {
		digest, ok := digestOfFile(file.Name())
		info, err := file.Info()
		switch {
		case !ok || err != nil:
		case pinned != nil && !pinned[digest]:
			_ = folder.Remove(file.Name()) // a file that stays is removed later
		default:
			written[digest] = true
			size += info.Size()
		}
	}
	for _, digest := range slices.Sorted(maps.Keys(unwritten)) {
		var text bytes.Buffer
		if written[digest] || json.Indent(&text, unwritten[digest], "", "  ") != nil || size+int64(text.Len()) > maxDefinitions {
			continue
		}
		text.WriteByte('\n')
		// There may be thousands, so the files are not synced: one that a crash has damaged has another digest, and is not used.
		name := definitionFile(digest)
		if err := errors.Join(folder.WriteFile(".new-"+name, text.Bytes(), 0o666), folder.Rename(".new-"+name, name)); err != nil {
			return written, err
		}
		written[digest] = true
		size += int64(text.Len())
	}
	return written, nil
}

// definition reads an accepted definition. It returns nil if the folder has none with this digest.
func (l *Lock) definition(kind Kind, digest string) json.RawMessage {
	if l.path == "" || checkDigest(digest) != nil {
		return nil
	}
	text, err := sharedfile.Read(l.path+folderSuffix+string(os.PathSeparator)+definitionFile(digest), maxDefinitions)
	if err != nil {
		return nil
	}
	if found, err := Digest(kind, text); err != nil || found != digest {
		return nil
	}
	return bytes.TrimSpace(text)
}
