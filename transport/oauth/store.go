package oauth

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/sharedfile"
)

// A TokenStore stores a client's tokens and registrations. Values are secrets. A client
// calls the methods concurrently, but never for the same key.
type TokenStore interface {
	// Load returns the value of a key, "" if there is none.
	Load(ctx context.Context, key string) (Secret, error)
	// Save sets the value of a key, which has at most a few hundred KiB. The empty value
	// deletes the key.
	Save(ctx context.Context, key string, value Secret) error
}

// A LockingStore is a [TokenStore] that several processes can use at the same time. A client
// refreshes a token of such a store in only one process at a time; the others then use its
// result. [NewFileStore] returns one. A client looks for it on [Options].Store. Without it, each process refreshes
// the token, and the authorization server may refuse all but the first.
type LockingStore interface {
	TokenStore
	// Lock waits until no other process holds the lock of a key, and takes the lock. unlock
	// releases it, and so does the end of the process. The lock does not block Load and Save, in
	// this or in other processes. When ctx ends first, Lock returns an error. A client calls it
	// at most once at a time for the same key.
	Lock(ctx context.Context, key string) (unlock func(), err error)
}

// A memoryStore is a [TokenStore] in memory.
type memoryStore struct {
	mu     sync.Mutex
	values *map[string]Secret // a pointer, so that fmt does not print it as part of another struct
}

// NewMemoryStore returns an empty store in memory. It may be used concurrently.
func NewMemoryStore() TokenStore { return &memoryStore{values: &map[string]Secret{}} }

// Load returns the value of a key.
func (s *memoryStore) Load(_ context.Context, key string) (Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (*s.values)[key], nil
}

// Save sets the value of a key. The empty value deletes it.
func (s *memoryStore) Save(_ context.Context, key string, value Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value == "" {
		delete(*s.values, key)
	} else {
		(*s.values)[key] = value
	}
	return nil
}

// Format prints a constant, so that no secret is printed.
func (s *memoryStore) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "oauth.MemoryStore") }

// A fileStore is a [LockingStore] in one encrypted file.
type fileStore struct {
	path string
	key  *[]byte // a pointer, so that fmt does not print it as part of another struct
	mu   sync.Mutex
}

var _ LockingStore = (*fileStore)(nil)

// storeTimeout bounds the wait for another process that writes the file.
const storeTimeout = 10 * time.Second

const (
	// minFileKey is the minimum length of the key of [NewFileStore], in bytes.
	minFileKey = 32
	// maxFile is the maximum length of the file, in bytes.
	maxFile  = 16 << 20
	saltSize = 32
	// fileHeader is the beginning of the file. It names the format.
	fileHeader = "dovetail tokens 1\n"
)

// NewFileStore returns a store in one encrypted file, at a path. The file need not exist; its folder
// must. The key needs at least 32 bytes from a cryptographic random source. A
// password is not a key. The store may be used concurrently. NewFileStore returns an error if the key is too short, and a
// [*StoreError] if it does not decrypt the file.
//
// The file is encrypted with AES-256-GCM. Each write uses a new key, derived by
// HKDF-SHA-256 (RFC 5869) from the caller's key and a random salt. The file cannot be read
// or changed without the key; replacing it by an older copy is not detected.
//
// Each write replaces the whole file, which only its owner may read. Several programs may
// share the file. They exclude each other with lock files beside it, whose names begin with its
// name and end with ".lock": one for writing, and one for each key whose token is refreshed.
// Lock files are empty and remain. The locks are advisory, and some network file systems do not
// support them. Then one of two changes at the same moment may be lost, or a token may be
// refreshed twice, and a person has to log in again.
func NewFileStore(path string, key []byte) (LockingStore, error) {
	if len(key) < minFileKey {
		return nil, fmt.Errorf("oauth: the key of a FileStore has %d bytes, expected at least %d", len(key), minFileKey)
	}
	key = bytes.Clone(key)
	s := &fileStore{path: path, key: &key}
	if _, err := s.read(); err != nil {
		return nil, &StoreError{"open", err}
	}
	return s, nil
}

// Load returns the value of a key.
func (s *fileStore) Load(_ context.Context, key string) (Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values, err := s.read()
	return Secret(values[key]), err
}

// Save sets the value of a key. The empty value deletes it. When Save returns, the value is
// on the disk, if the operating system can sync folders. Save waits up to ten seconds for
// another process that writes the file.
func (s *fileStore) Save(ctx context.Context, key string, value Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, storeTimeout, errStoreLocked)
	defer cancel()
	lock, err := sharedfile.OpenLocked(ctx, s.path+lockSuffix)
	if err != nil {
		return err
	}
	defer lock.Close()
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

const lockSuffix = ".lock"

var errStoreLocked = errors.New("another process has not finished writing the file")

// Lock waits for the exclusive right of this process to replace the value of a key. Its lock
// file has the name of the file, 16 digits of a hash of the key, and ".lock".
func (s *fileStore) Lock(ctx context.Context, key string) (unlock func(), err error) {
	hash := sha256.Sum256([]byte(key))
	lock, err := sharedfile.OpenLocked(ctx, s.path+"."+hex.EncodeToString(hash[:8])+lockSuffix)
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil
}

// read returns the content of the file. A missing file is empty.
func (s *fileStore) read() (map[string]string, error) {
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

var errFile = errors.New("the file was not written by a FileStore, was changed, or was written with another key")

func (s *fileStore) open(sealed []byte) ([]byte, error) {
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

func (s *fileStore) aead(salt []byte) (cipher.AEAD, error) {
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
func (s *fileStore) write(values map[string]string) (err error) {
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
	return sharedfile.Write(s.path, sealed, 0o600)
}

// Format prints a constant, so that no secret is printed.
func (s *fileStore) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "oauth.FileStore") }
