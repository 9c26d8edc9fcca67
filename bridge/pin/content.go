package pin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// skillScheme starts the URIs of files that a model follows.
const skillScheme = "skill://"

// verifying returns an entry that withholds content that was not accepted: of a resource that a browser runs, of the
// files of skills, and another definition of a skill. Other entries are returned unchanged.
func (p *Provider) verifying(e *evaluation, entry *server.Entry, t *evaluated) *server.Entry {
	if entry.Kind != mcp.KindResource && entry.Kind != mcp.KindResourceTemplate && entry.Kind != mcp.KindSkill {
		return entry
	}
	verifying := *entry
	verifying.Handle = func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		result, err := entry.Handle(ctx, call)
		if err != nil {
			return nil, err
		}
		uri := call.URI()
		canonical := uritemplate.Equivalent(uri)
		if entry.Kind != mcp.KindResource {
			uri = canonical // it is the caller's spelling; that of a resource is the listed one
		}
		switch {
		case call.Method() == mcp.MethodSkillsGet:
			err = p.checkSkill(e, entry, t, result)
		case call.Method() != mcp.MethodResourcesRead:
		case e.files[canonical] != "":
			err = p.checkFile(uri, e.files[canonical], result)
		case uritemplate.HasScheme(uri, mcp.SchemeUI):
			err = p.checkContent(uri, result)
		case uritemplate.HasScheme(uri, skillScheme) || entry.Kind == mcp.KindSkill:
			err = &QuarantinedError{Server: p.pins.alias, Entry: Entry{Content, uri}, Reason: reasonInvalid, Err: errors.New("it is a file of no accepted skill")}
		}
		if err != nil {
			return nil, err
		}
		return result, nil
	}
	return &verifying
}

// checkSkill compares the answer to skills/get with the list.
func (p *Provider) checkSkill(e *evaluation, entry *server.Entry, t *evaluated, result mcp.Result) error {
	of, now := entryOf(entry), ""
	definition, err := memberOf(result, "skill")
	if err == nil {
		now, err = Digest(Skill, definition)
	}
	if err == nil && now == t.digest {
		return nil
	}
	return &QuarantinedError{Server: p.pins.alias, Entry: of, Reason: reasonOf(err, true), OldDigest: (*e.pinned)[of], NewDigest: now, Err: err}
}

// checkFile compares the content of a file of a skill with the digest in the definition of the skill.
func (p *Provider) checkFile(uri, want string, result mcp.Result) error {
	now, err := fileDigest(result)
	if err == nil && now == want {
		return nil
	}
	return &QuarantinedError{Server: p.pins.alias, Entry: Entry{Content, uri}, Reason: reasonOf(err, true), OldDigest: want, NewDigest: now, Err: err}
}

// fileDigest returns the digest of the only content of a result.
func fileDigest(result mcp.Result) (string, error) {
	raw, err := memberOf(result, "contents")
	if err != nil {
		return "", err
	}
	var contents []json.RawMessage
	if err := json.Unmarshal(raw, &contents); err != nil || len(contents) != 1 {
		return "", errors.New("expected one content")
	}
	content, err := jsonscan.ReadObject(contents[0])
	if err != nil {
		return "", err
	}
	text, blob := content.Get("text"), content.Get("blob")
	var file []byte
	switch {
	case jsonscan.KindOf(text) == jsonscan.String && blob == nil:
		file = []byte(jsonscan.Unquote(text))
	case jsonscan.KindOf(blob) == jsonscan.String && text == nil:
		if file, err = base64.StdEncoding.DecodeString(jsonscan.Unquote(blob)); err != nil {
			return "", fmt.Errorf("blob: %w", err)
		}
	default:
		return "", errors.New("expected a text or a blob")
	}
	sum := sha256.Sum256(file)
	return digestPrefix + hex.EncodeToString(sum[:]), nil
}

// checkContent compares a content with its pin.
func (p *Provider) checkContent(uri string, result mcp.Result) error {
	of := Entry{Content, uri}
	raw, err := memberOf(result, "contents")
	definition := append(append([]byte(`{"contents":`), raw...), '}')
	now := ""
	if err == nil {
		err = checkName(Content.what(), uri)
	}
	if err == nil {
		now, err = Digest(Content, definition)
	}
	pins := p.pins.current.Load()
	pinned, isPinned := (*pins)[of]
	if err == nil && !isPinned && p.options.TrustNew {
		pins = p.trust(digests{of: now}, pins)
		pinned, isPinned = (*pins)[of]
	}
	if err == nil && isPinned && pinned == now {
		p.pins.setContent(uri, nil)
		p.pins.lock.keep(now, definition)
		return nil
	}
	pending := &Pending{Server: p.pins.alias, Entry: of, Reason: reasonOf(err, isPinned), OldDigest: pinned, NewDigest: now, Err: err}
	if err == nil {
		pending.After = definition
	}
	offered := pending.Reason == reasonChanged && p.options.OfferChanged
	var differ pendingLog
	differ.add("", pending, !offered)
	differ.log(p.options.Logger)
	if !p.pins.setContent(uri, pending) {
		p.options.Logger.Warn("too many contents are pending: this one can be accepted after others", "server", p.pins.alias, "uri", uri)
	}
	if offered {
		return nil
	}
	return pending.refusal()
}

// ReadContents reads the resources with the scheme ui, in upper or lower case. Contents that differ from their pins become
// pending.
// The provider must run. The error has the resources that could not be read.
func (p *Provider) ReadContents(ctx context.Context) error {
	var errs []error
	for entry := range p.provider.Catalog().All(mcp.KindResource) {
		if !uritemplate.HasScheme(entry.Name, mcp.SchemeUI) {
			continue
		}
		params := append(jsonscan.AppendString([]byte(`{"uri":`), entry.Name), '}')
		request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodResourcesRead, params)
		if err != nil {
			return err
		}
		call := mcp.NewCall(request, &mcp.Caller{}, nil)
		call.Resolve(&entry.Target, entry.Name, nil)
		result, err := entry.Handle(ctx, &call)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading %.256q: %w", entry.Name, err))
			continue
		}
		_ = p.checkContent(entry.Name, result) // the refusal is pending
	}
	return errors.Join(errs...)
}

// memberOf returns a member of a result.
func memberOf(result mcp.Result, name string) (json.RawMessage, error) {
	text, err := result.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	members, err := jsonscan.ReadObject(text)
	if err != nil {
		return nil, err
	}
	if value := members.Get(name); value != nil {
		return value, nil
	}
	return nil, fmt.Errorf("the answer has no member %q", name)
}

// addFiles adds the digests of the files of an accepted skill.
func (e *evaluation) addFiles(definition json.RawMessage) {
	var skill mcp.Skill
	if skill.UnmarshalJSON(definition) != nil {
		return
	}
	for _, file := range skill.Resources {
		uri := uritemplate.Equivalent(file.URI)
		if _, twice := e.files[uri]; twice && e.files[uri] != file.Digest {
			e.files[uri] = "two files have other digests" // no content has it
			continue
		}
		e.files[uri] = file.Digest
	}
}
