package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/internal/sharedfile"
)

const (
	// cacheTime is how long the names of a server are kept, so that each press of a key does not start it.
	cacheTime = time.Minute
	// maxCache is the size of the largest list that is kept, in bytes.
	maxCache = 1 << 20
)

// cachedEntries returns the names of a server that were listed for the same words, in the same folder, less than a minute
// ago; otherwise those that list returns. The files are in the user's cache folder.
func cachedEntries(words []string, list func() ([]listed, error)) []listed {
	caches, err := folder(os.UserCacheDir())
	if err != nil {
		entries, _ := list() // without them there are no candidates
		return entries
	}
	caches = filepath.Join(caches, "completion")
	removeOld(caches)
	here, _ := os.Getwd() // a part of the key only
	key := sha256.Sum256([]byte(strings.Join(append(words, here), "\x00")))
	path := filepath.Join(caches, hex.EncodeToString(key[:])+".json")
	var entries []listed
	if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &entries) == nil {
		return entries
	}
	entries, err = list()
	if err != nil {
		return nil
	}
	for i := range entries {
		entries[i] = entries[i].named()
	}
	if text, err := json.Marshal(entries); err == nil && len(text) <= maxCache && os.MkdirAll(caches, 0o700) == nil {
		_ = sharedfile.Write(path, text, 0o600) // the next completion starts the server
	}
	return entries
}

// removeOld removes the lists that are older than cacheTime.
func removeOld(caches string) {
	files, _ := os.ReadDir(caches) // there is none before the first list
	for _, file := range files {
		if info, err := file.Info(); err == nil && time.Since(info.ModTime()) > cacheTime {
			_ = os.Remove(filepath.Join(caches, file.Name())) // another process may have removed it
		}
	}
}

// named returns an entry with what completion shows: names, types of arguments, and the beginning of the description.
func (e listed) named() listed {
	short := listed{Name: e.Name, URI: e.URI, URITemplate: e.URITemplate, Description: peertext.Cut(e.Description, maxAbout), Arguments: e.Arguments}
	short.InputSchema.Required = e.InputSchema.Required
	short.InputSchema.Properties = make(map[string]json.RawMessage)
	for name, schema := range e.InputSchema.Properties {
		short.InputSchema.Properties[name] = json.RawMessage("{}")
		if kind := otherThanText(schema); kind != "" {
			short.InputSchema.Properties[name], _ = json.Marshal(map[string]string{"type": kind}) //nolint:errchkjson // text can be encoded
		}
	}
	return short
}
