package oauth

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// A FileStore is a [TokenStore] in one encrypted file: AES-256-GCM, with a key of its own
// for each time that it is written, derived by HKDF-SHA-256 (RFC 5869) from the caller's
// key and a random salt. Nobody reads or changes it without the key; an older copy of the
// file in its place is not noticed.
//
// The file is replaced as a whole, and only its owner may read it. Its methods may be
// called concurrently. Several programs may have the same file: a [Client] looks whether
// another one has refreshed a token before it does so itself. Nothing locks the file, so of
// programs that save at the same moment one may lose what it saved, and of those that
// refresh the same token one may be refused; someone has to log in again then. Use
// [NewFileStore].
type FileStore struct {
	path string
	key  *[]byte // behind a pointer, for fmt not to print it
	mu   sync.Mutex
}

const (
	// MinFileKey is how long the key of a [FileStore] must be, in bytes.
	MinFileKey = 32
	// maxFile is how long the file may be, in bytes.
	maxFile = 16 << 20
	// saltSize is how long the salt is, in bytes.
	saltSize = 32
	// fileHeader begins the file, and says how it goes on.
	fileHeader = "dovetail tokens 1\n"
)

// NewFileStore returns a store in the file at a path, which need not exist; its folder
// must. The key has at least [MinFileKey] bytes, from a cryptographic random source and
// not from a person. The error is that the key is too short, or that there is a file that
// it does not open (a [*StoreError]).
func NewFileStore(path string, key []byte) (*FileStore, error) {
	if len(key) < MinFileKey {
		return nil, fmt.Errorf("oauth: the key of a file store has %d bytes, at least %d expected", len(key), MinFileKey)
	}
	key = bytes.Clone(key)
	s := &FileStore{path: path, key: &key}
	if _, err := s.read(); err != nil {
		return nil, &StoreError{"open", err}
	}
	return s, nil
}

// Load returns the value of a key.
func (s *FileStore) Load(_ context.Context, key string) (Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values, err := s.read()
	return Secret(values[key]), err
}

// Save keeps a value, or forgets it. When it returns, the value is on the disk; that it is
// in the folder's entry too depends on the system, and not all can say so.
func (s *FileStore) Save(_ context.Context, key string, value Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	values, err := s.read()
	if err != nil {
		return err
	}
	if value == "" {
		delete(values, key)
	} else {
		values[key] = string(value)
	}
	return s.write(values)
}

// read reads the file. One that there is not is empty.
func (s *FileStore) read() (map[string]string, error) {
	values := make(map[string]string)
	file, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return values, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	sealed, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	text, err := s.open(sealed)
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(text, &values) != nil {
		return nil, errFile
	}
	return values, nil
}

var errFile = errors.New("the file is not one of this store, was changed, or was written with another key")

func (s *FileStore) open(sealed []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(sealed, []byte(fileHeader))
	if !ok || len(rest) < saltSize || len(sealed) > maxFile {
		return nil, errFile
	}
	aead, err := s.aead(rest[:saltSize])
	if err != nil {
		return nil, err
	}
	text, err := aead.Open(nil, nil, rest[saltSize:], []byte(fileHeader))
	if err != nil {
		return nil, errFile
	}
	return text, nil
}

func (s *FileStore) aead(salt []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, *s.key, salt, fileHeader, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// write replaces the file.
func (s *FileStore) write(values map[string]string) (err error) {
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	salt := make([]byte, saltSize)
	rand.Read(salt) // never fails
	aead, err := s.aead(salt)
	if err != nil {
		return err
	}
	sealed := aead.Seal(append([]byte(fileHeader), salt...), nil, text, []byte(fileHeader))
	if len(sealed) > maxFile {
		return fmt.Errorf("the file would have more than %d bytes", maxFile)
	}
	next, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".*") // only the owner may read it
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(next.Name())
		}
	}()
	_, err = next.Write(sealed)
	if err == nil {
		err = next.Sync()
	}
	if closed := next.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err = os.Rename(next.Name(), s.path); err != nil {
		return err
	}
	if folder, err := os.Open(filepath.Dir(s.path)); err == nil {
		_ = folder.Sync() // not every system can
		_ = folder.Close()
	}
	return nil
}

// Format tells nothing of what the store holds.
func (s *FileStore) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "oauth.FileStore") }
