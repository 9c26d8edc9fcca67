package oauth_test

import (
	"maps"
	"slices"
	"strings"
)

// Why a variant is refused. Those that begin with "security" stay refused although other clients accept the variant.
const (
	wrongIssuer   = "security: the metadata are not the issuer's (RFC 8414, section 3.3)"
	wrongResponse = "security: the response is not the issuer's (RFC 9207, section 2.4)"
	wrongResource = "security: the metadata are for another resource (RFC 9728, section 3.3)"
	withoutPKCE   = "security: the authorization server does not declare PKCE (MCP); see AssumePKCE"
	downgrade     = "security: a proxy that fails must not select the authorization server or its endpoints"
	inTheClear    = "security: secrets over http, or to a private network"
	twoReadings   = "security: a member twice, which readers understand differently"
	notBearer     = "security: the token is of another type than requested"
	resourceSent  = "the authorization server refuses a required parameter; see NoResource"
	nowhere       = "there is no other way to log in"
	refusedLogin  = "the authorization server refuses"
)

func answering(pairs ...string) map[string]string {
	answers := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		answers[pairs[i]] = pairs[i+1]
	}
	return answers
}

// loginVariants returns all variants, by group.
func loginVariants() []loginVariant {
	return slices.Concat(issuerVariants(), placeVariants(), challengeVariants(), resourceVariants(), serverVariants(), registrationVariants(), tokenVariants())
}

// issuerVariants cross the spelling of the issuer in the metadata of the resource, its spelling in its own
// metadata, their place, and the issuer in the response.
func issuerVariants() (all []loginVariant) {
	slash := map[string]string{"": "", "/": " with slash"}
	for _, path := range []string{"", "/tenant"} {
		places := map[string]string{"OAuth": issuerOAuth + path, "OpenID": issuerOpenID + path}
		if path != "" {
			places["OpenID appended"] = "issuer" + path + "/.well-known/openid-configuration"
		}
		for _, named := range []string{"", "/"} {
			for _, own := range []string{"", "/"} {
				issuer := "ISSUER" + path + own
				for _, kind := range slices.Sorted(maps.Keys(places)) {
					name := "issuer" + path + slash[named] + ", metadata" + slash[own] + ", " + kind
					resource := `{"resource":"RESOURCE/mcp","authorization_servers":["ISSUER` + path + named + `"]}`
					answers := answering(resourcePath, resource, issuerOAuth, "404", places[kind], issuerDoc(issuer, "ISSUER"))
					all = append(all, loginVariant{name: name, answers: answers})
					if kind == "OAuth" {
						answers = maps.Clone(answers)
						answers[places[kind]] = issuerDoc(issuer, "ISSUER", "authorization_response_iss_parameter_supported", "true")
						all = append(all, loginVariant{name: name + ", iss in the response", answers: answers, iss: issuer})
					}
				}
			}
		}
	}
	for _, own := range []string{"", "/"} {
		for kind, place := range map[string]string{"OAuth": originOAuth, "OpenID": originOpenID} {
			all = append(all, loginVariant{
				name: "no resource metadata, metadata" + slash[own] + ", " + kind, challenge: "Bearer", atOrigin: true,
				answers: answering(resourcePath, "404", place, issuerDoc("RESOURCE"+own, "RESOURCE")),
			})
		}
	}
	for name, own := range map[string]string{
		"another": "https://as.example", "two slashes": "ISSUER//", "with a path": "ISSUER/tenant", "none": "", "with a query": "ISSUER/?", "the resource": "RESOURCE", "in capitals": "HTTP://127.0.0.1",
	} {
		all = append(all, loginVariant{name: "metadata of an issuer that is " + name, answers: answering(issuerOAuth, issuerDoc(own, "ISSUER")), refused: wrongIssuer})
	}
	for name, iss := range map[string]string{"another": "https://as.example", "with slash": "ISSUER/", "missing": ""} {
		doc := issuerDoc("ISSUER", "ISSUER", "authorization_response_iss_parameter_supported", "true")
		all = append(all, loginVariant{name: "iss in the response: " + name, answers: answering(issuerOAuth, doc), iss: iss, refused: wrongResponse})
		if iss != "" {
			all = append(all, loginVariant{name: "iss in the response, not declared: " + name, iss: iss, refused: wrongResponse})
		}
	}
	all = append(all, loginVariant{name: "iss in the response, not declared: equal", iss: "ISSUER"})
	slices.SortFunc(all, func(a, b loginVariant) int { return strings.Compare(a.name, b.name) })
	return all
}

// badAnswers are answers of a place without usable metadata.
var badAnswers = []struct{ name, answer string }{
	{"400", "400"}, {"401", "401"}, {"403", "403"}, {"404", "404"}, {"405", "405"}, {"406", "406"}, {"410", "410"}, {"422", `422 {"detail":[]}`},
	{"204", "204"}, {"HTML", "text/html <!doctype html><title>x</title>"}, {"HTML, 404", "404 <title>x</title>"}, {"text", "text/plain ok"}, {"empty", "text/plain "},
	{"JSON without members", "{}"}, {"an array", "[]"}, {"null", "null"}, {"cut off JSON", `{"resource":"RESO`}, {"a redirect elsewhere", "302 http://127.0.0.1:1/x"},
	{"a redirect to a page", "302 /page"}, {"a redirect in a circle", "302 "},
	{"408", "408"}, {"429", "429"}, {"500", "500"}, {"502", "502"}, {"503", "503"}, {"hang up", "hang up"},
}

// goodForms are unusual forms of usable metadata.
var goodForms = []struct{ name, before string }{
	{"text/plain", "text/plain "}, {"application/octet-stream", "application/octet-stream "}, {"text/html", "text/html "}, {"a BOM", "\ufeff"}, {"status 203", "203 "}, {"line breaks", "\r\n\r\n"},
}

// placeVariants cross places with bad answers there.
func placeVariants() (all []loginVariant) {
	for _, bad := range badAnswers {
		temporary := slices.Contains([]string{"408", "429", "500", "502", "503", "hang up"}, bad.answer)
		add := func(v loginVariant, refused string) {
			if temporary || refused == downgrade && bad.answer != "404" {
				v.refused = refused
			}
			all = append(all, v)
		}
		add(loginVariant{name: "resource metadata at the root, at the path " + bad.name, challenge: "Bearer", answers: answering(resourcePath, bad.answer, resourceRoot, resourceRootDoc)}, "")
		add(loginVariant{name: "authorization server at the origin, resource metadata " + bad.name, challenge: "Bearer", atOrigin: true, answers: answering(resourcePath, bad.answer, resourceRoot, bad.answer, originOAuth, issuerDoc("RESOURCE", "RESOURCE"))}, downgradeIf(temporary))
		add(loginVariant{name: "OpenID metadata, OAuth place " + bad.name, answers: answering(issuerOAuth, bad.answer, issuerOpenID, issuerDoc("ISSUER", "ISSUER"))}, "")
		add(loginVariant{name: "default endpoints, all places " + bad.name, challenge: "Bearer", atOrigin: true, answers: answering(resourcePath, bad.answer, resourceRoot, bad.answer, originOAuth, bad.answer, originOpenID, bad.answer)}, downgrade)
		if bad.answer != "404" {
			add(loginVariant{name: "default endpoints, one place " + bad.name, challenge: "Bearer", atOrigin: true, answers: answering(resourcePath, "404", originOpenID, bad.answer)}, downgrade)
		}
	}
	for i := range all {
		if strings.HasSuffix(all[i].name, "HTML, 404") {
			all[i].refused = ""
		}
	}
	for _, form := range goodForms {
		all = append(all,
			loginVariant{name: "resource metadata as " + form.name, answers: answering(resourcePath, form.before+resourceDoc)},
			loginVariant{name: "metadata of the authorization server as " + form.name, answers: answering(issuerOAuth, form.before+issuerDoc("ISSUER", "ISSUER"))},
		)
	}
	return append(all,
		loginVariant{name: "resource metadata after a redirect at the origin", answers: answering(resourcePath, "302 /prm", "resource/prm", resourceDoc)},
		loginVariant{name: "metadata of the authorization server after a redirect at the origin", answers: answering(issuerOAuth, "302 /as", "issuer/as", issuerDoc("ISSUER", "ISSUER"))},
		loginVariant{name: "resource metadata, but none of the authorization server", answers: answering(issuerOAuth, "404"), refused: withoutPKCE},
	)
}

func downgradeIf(temporary bool) string {
	if temporary {
		return downgrade
	}
	return ""
}

// challengeVariants are forms of challenges.
func challengeVariants() (all []loginVariant) {
	// The metadata are only where the challenge says.
	for _, c := range []struct{ name, challenge string }{
		{"quoted", `Bearer resource_metadata="RESOURCE/prm"`},
		{"without quotes", `Bearer resource_metadata=RESOURCE/prm`},
		{"without quotes, first of several", `Bearer resource_metadata=RESOURCE/prm, error=invalid_token`},
		{"without commas", `Bearer realm="x" error="invalid_token" resource_metadata="RESOURCE/prm"`},
		{"without quotes and commas", `Bearer realm=x error=invalid_token resource_metadata=RESOURCE/prm`},
		{"with semicolons", `Bearer realm="x"; resource_metadata="RESOURCE/prm"`},
		{"with semicolons, without quotes", `Bearer realm=x; resource_metadata=RESOURCE/prm; error=x`},
		{"in single quotes", `Bearer realm='x', resource_metadata='RESOURCE/prm'`},
		{"a repeated parameter", `Bearer error="a", error="b", resource_metadata="RESOURCE/prm"`},
		{"repeated metadata", `Bearer resource_metadata="RESOURCE/prm", resource_metadata="https://10.0.0.1/"`},
		{"an unquoted scope list", `Bearer scope=a b c, resource_metadata="RESOURCE/prm"`},
		{"an unquoted scope list without commas", `Bearer scope=a b c resource_metadata="RESOURCE/prm"`},
		{"an unquoted scope list with commas", `Bearer scope=a,b,c, resource_metadata="RESOURCE/prm"`},
		{"an open quote before", `Bearer resource_metadata="RESOURCE/prm", error="x`},
		{"an open quote", `Bearer error="x", resource_metadata="RESOURCE/prm`},
		{"an empty parameter", `Bearer scope=, resource_metadata="RESOURCE/prm"`},
		{"an empty quoted parameter", `Bearer scope="", resource_metadata="RESOURCE/prm"`},
		{"spaces around =", `Bearer resource_metadata = "RESOURCE/prm"`},
		{"in capitals", `BEARER Resource_Metadata="RESOURCE/prm"`},
		{"in lower case", `bearer resource_metadata="RESOURCE/prm"`},
		{"a comma after the scheme", `Bearer, resource_metadata="RESOURCE/prm"`},
		{"a colon after the scheme", `Bearer: resource_metadata="RESOURCE/prm"`},
		{"a comma at the end", `Bearer resource_metadata="RESOURCE/prm",`},
		{"commas between", `Bearer error="x",, ,resource_metadata="RESOURCE/prm"`},
		{"Basic before", `Basic realm="x", Bearer resource_metadata="RESOURCE/prm"`},
		{"Basic before, without a comma", `Basic realm="x" Bearer resource_metadata="RESOURCE/prm"`},
		{"Basic after", `Bearer resource_metadata="RESOURCE/prm", Basic realm="x"`},
		{"Negotiate before", `Negotiate abc==, Bearer resource_metadata="RESOURCE/prm"`},
		{"in two lines", "Basic realm=\"x\"\nBearer resource_metadata=\"RESOURCE/prm\""},
		{"Bearer in two lines", "Bearer realm=\"x\"\nBearer resource_metadata=\"RESOURCE/prm\""},
		{"Bearer twice", `Bearer, Bearer resource_metadata="RESOURCE/prm"`},
		{"escapes", `Bearer error_description="say \"x\", y", resource_metadata="RESOURCE/prm"`},
		{"other characters", "Bearer error_description=\"caf\u00e9\", resource_metadata=\"RESOURCE/prm\""},
		{"garbage before", `Bearer (x) {y}, resource_metadata="RESOURCE/prm"`},
		{"a relative URL", `Bearer resource_metadata="/prm"`},
		{"a relative URL without a slash", `Bearer resource_metadata="prm"`},
		{"a URL with spaces around", `Bearer resource_metadata=" RESOURCE/prm "`},
		{"a URL without a scheme", `Bearer resource_metadata="//RESOURCEHOST/prm"`},
	} {
		all = append(all, loginVariant{name: "challenge: " + c.name, challenge: c.challenge, answers: answering(resourcePath, "404", "resource/prm", resourceDoc)})
	}
	// The metadata are at the well-known location.
	for _, c := range []struct{ name, challenge string }{
		{"none", "none"}, {"without parameters", "Bearer"}, {"Basic", `Basic realm="x"`}, {"empty", ""},
		{"metadata at a broken URL", `Bearer resource_metadata="http://[x"`}, {"metadata at no URL", `Bearer resource_metadata="not a URL"`}, {"metadata nowhere", `Bearer resource_metadata=""`},
		{"metadata at a private address", `Bearer resource_metadata="https://10.0.0.1/x"`}, {"metadata in a file", `Bearer resource_metadata="file:///etc/passwd"`},
		{"metadata over http", `Bearer resource_metadata="http://192.0.2.1/x"`}, {"metadata with a user", `Bearer resource_metadata="https://user@127.0.0.1:1/x"`},
		{"metadata at a closed port", `Bearer resource_metadata="http://127.0.0.1:1/x"`}, {"metadata at a template", `Bearer resource_metadata="{BASE_URL}/.well-known/x"`},
	} {
		challenge := c.challenge
		if c.name == "empty" {
			challenge = " "
		}
		all = append(all, loginVariant{name: "challenge: " + c.name, challenge: challenge})
	}
	for _, bad := range badAnswers {
		all = append(all, loginVariant{name: "challenged metadata: " + bad.name, challenge: `Bearer resource_metadata="RESOURCE/gone"`, answers: answering("resource/gone", bad.answer)})
	}
	all = append(all,
		loginVariant{name: "challenge: metadata at another origin", challenge: `Bearer resource_metadata="ISSUER/prm"`, answers: answering(resourcePath, "404", "issuer/prm", resourceDoc)},
		loginVariant{name: "challenged metadata: of another resource", challenge: `Bearer resource_metadata="RESOURCE/prm"`, answers: answering("resource/prm", `{"resource":"https://mcp.example/mcp","authorization_servers":["ISSUER"]}`), refused: wrongResource},
	)
	for _, c := range []struct{ name, challenge string }{
		{"quoted", `Bearer error="insufficient_scope", scope="more"`},
		{"without quotes", `Bearer error=insufficient_scope, scope=more`},
		{"without commas", `Bearer error="insufficient_scope" scope="more"`},
		{"without quotes and commas", `Bearer error=insufficient_scope scope=more`},
		{"a scope list", `Bearer error="insufficient_scope", scope="a more"`},
		{"an unquoted scope list", `Bearer error=insufficient_scope, scope=a more`},
		{"an unquoted scope list before", `Bearer scope=a more, error=insufficient_scope`},
		{"an unquoted scope list before, without commas", `Bearer scope=a more error="insufficient_scope"`},
		{"with semicolons", `Bearer error="insufficient_scope"; scope="more"`},
		{"in single quotes", `Bearer error='insufficient_scope', scope='a more'`},
		{"repeated errors", `Bearer error="insufficient_scope", error="invalid_token", scope="more"`},
		{"repeated scopes", `Bearer error="insufficient_scope", scope="more", scope="less"`},
		{"an open quote", `Bearer error="insufficient_scope", scope="more`},
		{"an open quote after", `Bearer error="insufficient_scope", scope="more", error_description="x`},
		{"broken metadata", `Bearer error="insufficient_scope", scope="more", resource_metadata="http://[x"`},
		{"Basic before", `Basic realm="x", Bearer error="insufficient_scope", scope="more"`},
	} {
		all = append(all, loginVariant{name: "step-up: " + c.name, stepUp: c.challenge})
	}
	return append(all,
		loginVariant{name: "step-up: without an error", stepUp: `Bearer scope="more"`, refused: nowhere},
		loginVariant{name: "step-up: another error", stepUp: `Bearer error="access_denied", scope="more"`, refused: nowhere},
	)
}

// resourceVariants are contents of the metadata of a resource.
func resourceVariants() (all []loginVariant) {
	for _, c := range []struct{ name, doc, refused string }{
		{"a slash at the end", `{"resource":"RESOURCE/mcp/","authorization_servers":["ISSUER"]}`, ""},
		{"the origin", resourceRootDoc, ""},
		{"the origin with a slash", `{"resource":"RESOURCE/","authorization_servers":["ISSUER"]}`, ""},
		{"another origin", `{"resource":"https://mcp.example/mcp","authorization_servers":["ISSUER"]}`, wrongResource},
		{"another path", `{"resource":"RESOURCE/other","authorization_servers":["ISSUER"]}`, wrongResource},
		{"a longer path", `{"resource":"RESOURCE/mcp/x","authorization_servers":["ISSUER"]}`, wrongResource},
		{"a path that begins equally", `{"resource":"RESOURCE/mc","authorization_servers":["ISSUER"]}`, wrongResource},
		{"https", `{"resource":"https://127.0.0.1/mcp","authorization_servers":["ISSUER"]}`, wrongResource},
		{"several servers", `{"resource":"RESOURCE/mcp","authorization_servers":["ISSUER","https://as.example"]}`, ""},
		{"17 servers", `{"resource":"RESOURCE/mcp","authorization_servers":["ISSUER"` + strings.Repeat(`,"https://as.example"`, 16) + `]}`, ""},
		{"a server that is no URL before", `{"resource":"RESOURCE/mcp","authorization_servers":["x","ISSUER"]}`, ""},
		{"a server over http", `{"resource":"RESOURCE/mcp","authorization_servers":["http://192.0.2.1"]}`, inTheClear},
		{"a server in a private network", `{"resource":"RESOURCE/mcp","authorization_servers":["https://10.0.0.1"]}`, inTheClear},
		{"scopes null", `{"resource":"RESOURCE/mcp","authorization_servers":["ISSUER"],"scopes_supported":null}`, ""},
		{"scopes as text", `{"resource":"RESOURCE/mcp","authorization_servers":["ISSUER"],"scopes_supported":"a b"}`, ""},
		{"scopes with a number", `{"resource":"RESOURCE/mcp","authorization_servers":["ISSUER"],"scopes_supported":["a",7]}`, ""},
		{"scopes with spaces", `{"resource":"RESOURCE/mcp","authorization_servers":["ISSUER"],"scopes_supported":["a b"]}`, ""},
		{"other members null", `{"resource":"RESOURCE/mcp","authorization_servers":["ISSUER"],"jwks_uri":null,"resource_name":null,"dpop_bound_access_tokens_required":null}`, ""},
		{"other members of other types", `{"resource":"RESOURCE/mcp","authorization_servers":["ISSUER"],"bearer_methods_supported":"header","resource_name":7}`, ""},
		{"unknown members", `{"resource":"RESOURCE/mcp","authorization_servers":["ISSUER"],"x":{"y":[]}}`, ""},
	} {
		all = append(all, loginVariant{name: "resource metadata: " + c.name, answers: answering(resourcePath, c.doc), refused: c.refused})
	}
	// The authorization server is at the origin.
	for _, c := range []struct{ name, doc string }{
		{"no servers", `{"resource":"RESOURCE/mcp"}`}, {"servers null", `{"resource":"RESOURCE/mcp","authorization_servers":null}`}, {"servers empty", `{"resource":"RESOURCE/mcp","authorization_servers":[]}`},
		{"servers as text", `{"resource":"RESOURCE/mcp","authorization_servers":"ISSUER"}`}, {"servers that are no URLs", `{"resource":"RESOURCE/mcp","authorization_servers":["x"]}`},
		{"no resource", `{"authorization_servers":["ISSUER"]}`}, {"resource null", `{"resource":null,"authorization_servers":["ISSUER"]}`}, {"resource a number", `{"resource":7,"authorization_servers":["ISSUER"]}`},
		{"resource empty", `{"resource":"","authorization_servers":["ISSUER"]}`}, {"resource a name", `{"resource":"mcp-server","authorization_servers":["ISSUER"]}`},
		{"resource twice", `{"resource":"RESOURCE/x","resource":"RESOURCE/mcp","authorization_servers":["ISSUER"]}`},
	} {
		all = append(all, loginVariant{name: "authorization server at the origin, resource metadata with " + c.name, atOrigin: true, answers: answering(resourcePath, c.doc, originOAuth, issuerDoc("RESOURCE", "RESOURCE"))})
	}
	return all
}

// serverVariants are contents of the metadata of an authorization server.
func serverVariants() (all []loginVariant) {
	for _, c := range []struct{ name, member, value, refused string }{
		{"no PKCE", "code_challenge_methods_supported", "", withoutPKCE},
		{"PKCE null", "code_challenge_methods_supported", "null", withoutPKCE},
		{"PKCE empty", "code_challenge_methods_supported", "[]", withoutPKCE},
		{"PKCE plain", "code_challenge_methods_supported", `["plain"]`, withoutPKCE},
		{"PKCE plain and S256", "code_challenge_methods_supported", `["plain","S256"]`, ""},
		{"PKCE S256 and a number", "code_challenge_methods_supported", `["S256",7]`, ""},
		{"no response types", "response_types_supported", "", ""},
		{"response types null", "response_types_supported", "null", ""},
		{"no methods", "token_endpoint_auth_methods_supported", "", ""},
		{"methods null", "token_endpoint_auth_methods_supported", "null", ""},
		{"methods as text", "token_endpoint_auth_methods_supported", `"none"`, ""},
		{"only client_secret_basic", "token_endpoint_auth_methods_supported", `["client_secret_basic"]`, ""},
		{"only client_secret_post", "token_endpoint_auth_methods_supported", `["client_secret_post"]`, ""},
		{"only private_key_jwt", "token_endpoint_auth_methods_supported", `["private_key_jwt"]`, ""},
		{"only tls_client_auth", "token_endpoint_auth_methods_supported", `["tls_client_auth"]`, ""},
		{"scopes null", "scopes_supported", "null", ""},
		{"scopes as text", "scopes_supported", `"a b"`, ""},
		{"grant types as text", "grant_types_supported", `"authorization_code"`, ""},
		{"revocation null", "revocation_endpoint", "null", ""},
		{"revocation over http", "revocation_endpoint", `"http://192.0.2.1/x"`, ""},
		{"keys null", "jwks_uri", "null", ""},
		{"keys empty", "jwks_uri", `""`, ""},
		{"service_documentation empty", "service_documentation", `""`, ""},
		{"iss support null", "authorization_response_iss_parameter_supported", "null", ""},
		{"iss support as text", "authorization_response_iss_parameter_supported", `"false"`, ""},
		{"iss support as text, true", "authorization_response_iss_parameter_supported", `"true"`, wrongResponse},
		{"iss support a number", "authorization_response_iss_parameter_supported", `1`, "security: it is not known whether the response must name the issuer"},
		{"unknown members", "x", `{"y":[null]}`, ""},
		{"a query of the authorization endpoint", "authorization_endpoint", `"ISSUER/authorize?tenant=a"`, ""},
		{"no registration", "registration_endpoint", "", nowhere},
		{"registration null", "registration_endpoint", "null", nowhere},
		{"registration over http", "registration_endpoint", `"http://192.0.2.1/register"`, inTheClear},
		{"no token endpoint", "token_endpoint", "", nowhere},
		{"token endpoint over http", "token_endpoint", `"http://192.0.2.1/token"`, inTheClear},
		{"token endpoint in a private network", "token_endpoint", `"https://10.0.0.1/token"`, inTheClear},
		{"no authorization endpoint", "authorization_endpoint", "", nowhere},
		{"authorization endpoint over http", "authorization_endpoint", `"http://192.0.2.1/authorize"`, inTheClear},
		{"authorization endpoint with another client", "authorization_endpoint", `"ISSUER/authorize?client_id=x"`, "security: the endpoint sets a parameter of the request"},
	} {
		all = append(all, loginVariant{name: "authorization server: " + c.name, answers: answering(issuerOAuth, issuerDoc("ISSUER", "ISSUER", c.member, c.value)), refused: c.refused})
	}
	twice := strings.Replace(issuerDoc("ISSUER", "ISSUER"), "{", `{"token_endpoint":"https://as.example/token",`, 1)
	return append(all,
		loginVariant{name: "authorization server: token endpoint twice", answers: answering(issuerOAuth, twice), refused: twoReadings},
		loginVariant{name: "authorization server: refuses resource", noResource: true, refused: resourceSent},
		loginVariant{name: "authorization server: OpenID metadata only, without keys", answers: answering(issuerOAuth, "404", issuerOpenID, issuerDoc("ISSUER", "ISSUER", "jwks_uri", ""))},
	)
}

// registrationVariants are responses of the registration endpoint.
func registrationVariants() (all []loginVariant) {
	const beginning = `{"client_id":"app","redirect_uris":REDIRECTS`
	for _, c := range []struct{ name, answer, secret, refused string }{
		{"status 200", beginning + `}`, "", ""},
		{"status 201", "201 " + beginning + `}`, "", ""},
		{"status 202", "202 " + beginning + `}`, "", ""},
		{"text/plain", "text/plain " + beginning + `}`, "", ""},
		{"a BOM", "\ufeff" + beginning + `}`, "", ""},
		{"no redirect URIs", `{"client_id":"app"}`, "", ""},
		{"nulls", beginning + `,"client_secret":null,"client_name":null,"scope":null,"token_endpoint_auth_method":null}`, "", ""},
		{"a secret, no method", beginning + `,"client_secret":"s"}`, "s", ""},
		{"a secret for basic", beginning + `,"client_secret":"s","token_endpoint_auth_method":"client_secret_basic"}`, "s", ""},
		{"a secret for post", beginning + `,"client_secret":"s","token_endpoint_auth_method":"client_secret_post"}`, "s", ""},
		{"a secret that never expires", beginning + `,"client_secret":"s","client_secret_expires_at":0,"token_endpoint_auth_method":"client_secret_post"}`, "s", ""},
		{"a secret that expires in seconds", beginning + `,"client_secret":"s","client_secret_expires_at":4102444800,"token_endpoint_auth_method":"client_secret_post"}`, "s", ""},
		{"a secret that expires in milliseconds", beginning + `,"client_secret":"s","client_secret_expires_at":4102444800000,"token_endpoint_auth_method":"client_secret_post"}`, "s", ""},
		{"a secret that expires in nanoseconds", beginning + `,"client_secret":"s","client_secret_expires_at":4102444800000000000,"token_endpoint_auth_method":"client_secret_post"}`, "s", ""},
		{"a secret whose expiry is a fraction", beginning + `,"client_secret":"s","client_secret_expires_at":4102444800.5,"token_endpoint_auth_method":"client_secret_post"}`, "s", ""},
		{"a secret whose expiry is negative", beginning + `,"client_secret":"s","client_secret_expires_at":-1,"token_endpoint_auth_method":"client_secret_post"}`, "s", ""},
		{"a secret whose expiry is null", beginning + `,"client_secret":"s","client_secret_expires_at":null,"token_endpoint_auth_method":"client_secret_post"}`, "s", ""},
		{"a secret whose expiry is text", beginning + `,"client_secret":"s","client_secret_expires_at":"4102444800","token_endpoint_auth_method":"client_secret_post"}`, "s", ""},
		{"a secret whose expiry is a date", beginning + `,"client_secret":"s","client_secret_expires_at":"2100-01-01","token_endpoint_auth_method":"client_secret_post"}`, "s", ""},
		{"the time of issue as text", beginning + `,"client_id_issued_at":"2026-01-01T00:00:00Z"}`, "", ""},
		{"the time of issue in milliseconds", beginning + `,"client_id_issued_at":1770000000000}`, "", ""},
		{"no client", `{"redirect_uris":REDIRECTS}`, "", nowhere},
		{"a client that is a number", `{"client_id":7,"redirect_uris":REDIRECTS}`, "", nowhere},
		{"a refusal", `400 {"error":"invalid_client_metadata"}`, "", refusedLogin},
		{"HTML", "text/html <title>x</title>", "", nowhere},
	} {
		all = append(all, loginVariant{name: "registration: " + c.name, answers: answering("register", c.answer), secret: c.secret, refused: c.refused})
	}
	return all
}

// tokenVariants are responses of the token endpoint.
func tokenVariants() (all []loginVariant) {
	for _, c := range []struct{ name, more string }{
		{"no expiry", ``}, {"expires_in null", `,"expires_in":null`}, {"expires_in as text", `,"expires_in":"3600"`}, {"expires_in a fraction", `,"expires_in":3600.5`}, {"expires_in a fraction as text", `,"expires_in":"3600.0"`},
		{"expires_in -1", `,"expires_in":-1`}, {"expires_in 0", `,"expires_in":0`}, {"expires_in with an exponent", `,"expires_in":3.6e3`}, {"expires_in very large", `,"expires_in":1e18`}, {"expires_in beyond 64 bits", `,"expires_in":36893488147419103232`},
		{"expires_in as a word", `,"expires_in":"never"`}, {"expires_in empty", `,"expires_in":""`}, {"expires_in true", `,"expires_in":true`}, {"expires_in an object", `,"expires_in":{}`},
		{"scope null", `,"scope":null`}, {"scope empty", `,"scope":""`}, {"scope a list", `,"scope":["a"]`}, {"refresh_token null", `,"refresh_token":null`}, {"refresh_token empty", `,"refresh_token":""`},
		{"id_token null", `,"id_token":null`}, {"error null", `,"error":null`}, {"error empty", `,"error":""`}, {"unknown members", `,"x":{}`},
	} {
		all = append(all, loginVariant{name: "token: " + c.name, answers: answering("token", `{"access_token":"TOKEN","token_type":"Bearer"`+c.more+`}`)})
	}
	const token = `{"access_token":"TOKEN","token_type":"Bearer"}`
	for _, c := range []struct{ name, answer, refused string }{
		{"no type", `{"access_token":"TOKEN"}`, ""},
		{"type null", `{"access_token":"TOKEN","token_type":null}`, ""},
		{"type bearer", `{"access_token":"TOKEN","token_type":"bearer"}`, ""},
		{"type BEARER", `{"access_token":"TOKEN","token_type":"BEARER"}`, ""},
		{"type mac", `{"access_token":"TOKEN","token_type":"mac"}`, notBearer},
		{"type DPoP", `{"access_token":"TOKEN","token_type":"DPoP"}`, notBearer},
		{"text/plain", "text/plain " + token, ""},
		{"text/html", "text/html " + token, ""},
		{"a BOM", "\ufeff" + token, ""},
		{"line breaks", "\r\n" + token + "\r\n", ""},
		{"status 201", "201 " + token, ""},
		{"status 203", "203 " + token, ""},
		{"a form", "application/x-www-form-urlencoded access_token=TOKEN&token_type=bearer&expires_in=3600", ""},
		{"a form as text/plain", "text/plain access_token=TOKEN&token_type=bearer", ""},
		{"a token twice", `{"access_token":"x","access_token":"TOKEN","token_type":"Bearer"}`, twoReadings},
		{"a token that is a number", `{"access_token":7,"token_type":"Bearer"}`, nowhere},
		{"no token", `{"token_type":"Bearer"}`, nowhere},
		{"an error with status 200", `{"error":"invalid_grant","access_token":"TOKEN","token_type":"Bearer"}`, "security: an error and a token, which readers understand differently"},
		{"a redirect", "307 ISSUER/token", "security: secrets are not sent to another URL"},
		{"HTML", "text/html <title>x</title>", nowhere},
	} {
		all = append(all, loginVariant{name: "token: " + c.name, answers: answering("token", c.answer), refused: c.refused})
	}
	return all
}
