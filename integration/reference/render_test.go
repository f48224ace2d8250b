package reference

import (
	"fmt"
	"go/doc/comment"
	"regexp"
	"strings"
)

const head = `# Configuration

All that can be configured, for a Caddyfile and for JSON. **This file is written by ` + "`go test ./integration/reference -update`" + `** from the comments in
[caddyfile/](../caddyfile) and [auth/](../auth); change those. What most people need is in the [README](../README.md#the-caddyfile), with examples;
[Caddyfile.example](../Caddyfile.example) is a whole file, explained line by line.

A value that is missing or zero has its default. Durations are ` + "`500ms`, `30s`, `1h`" + `; in JSON also numbers of nanoseconds. Sizes are bytes, in a Caddyfile
also ` + "`64KiB` or `1MiB`. Where a Caddyfile says `off`, JSON says -1." + ` Addresses, files and secrets may be placeholders, ` + "`{env.NAME}` or `{file./path}`" + `, which
are read when the config is loaded; secrets must be. An option that is unknown, contradicts another or is out of range is an error with file and line.

`

// page is the whole reference.
func (s *source) page() string {
	var b strings.Builder
	b.WriteString(head)
	for _, section := range sections {
		fmt.Fprintf(&b, "- [%s](#%s)\n", section.title, anchor(section.title))
	}
	for _, section := range sections {
		s.write(&b, section)
	}
	return b.String()
}

func anchor(title string) string {
	return strings.ReplaceAll(strings.ToLower(title), " ", "-")
}

func (s *source) write(b *strings.Builder, of section) {
	o := s.objects[of.of]
	fmt.Fprintf(b, "\n## %s\n\nIn JSON: %s.\n\n%s", of.title, of.json, linked(markdown(named(plain(o.doc, o.name), o))))
	if of.grammar != "" {
		b.WriteString("\n" + linked(markdown(syntaxOf(s.syntax[of.grammar]))))
	}
	if len(o.fields) == 0 {
		return
	}
	b.WriteString("\n| Caddyfile | JSON | | default | |\n|---|---|---|---|---|\n")
	for _, f := range o.fields {
		if f.json == "" {
			continue
		}
		spelling := "–"
		if option, _ := s.option(of, f); option != "" {
			spelling = "`" + option + "`"
		}
		text, preset := defaultOf(f.doc)
		fmt.Fprintf(b, "| %s | `%s` | %s | %s | %s |\n", spelling, f.json, f.kind, cell(named(preset, o)), cell(named(plain(text, f.name), o)))
	}
}

// syntaxOf is what a parser's comment says from the word Syntax on.
func syntaxOf(doc string) string {
	_, syntax, _ := strings.Cut(doc, "Syntax:")
	return "Syntax:" + syntax
}

// presets are the sentences that say what holds when an option is missing.
var presets = regexp.MustCompile(`(?s)(?:^|\s)(Default: |Required)(.*?)\.(?:\s+|$)`)

// defaultOf takes the sentence with the default out of a comment.
func defaultOf(doc string) (text, preset string) {
	doc = strings.Join(strings.Fields(doc), " ")
	at := presets.FindStringSubmatchIndex(doc)
	if at == nil {
		return doc, ""
	}
	preset = doc[at[4]:at[5]]
	if doc[at[2]:at[3]] == "Required" {
		preset = "required" + preset
	}
	return strings.TrimSpace(doc[:at[0]] + " " + doc[at[1]:]), preset
}

// plain drops the name that a comment begins with, as comments of Go do: the table
// has it already.
func plain(doc, name string) string {
	rest, ok := strings.CutPrefix(doc, name+" ")
	if !ok {
		return doc
	}
	verb, _, _ := strings.Cut(rest, " ")
	switch {
	case verb == "is", verb == "are":
		rest = strings.TrimPrefix(rest, verb+" ")
	case !strings.HasSuffix(verb, "s"):
		return doc
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

// linked points from what comments of Go refer to, to the sections about it.
func linked(text string) string {
	for _, of := range sections {
		_, name, _ := strings.Cut(of.of, ".")
		text = strings.ReplaceAll(text, "["+name+"]", "["+of.title+"](#"+anchor(of.title)+")")
		if of.grammar != "" {
			text = regexp.MustCompile(`see (?:\w+\.)?`+of.grammar+`\b`).ReplaceAllString(text, "see "+of.title)
		}
	}
	return text
}

// phrases have words that are the names of fields, and mean something else.
var phrases = []string{"TLS 1.2", "by TLS", "Redis Cluster", "Redis Sentinel", "Authorization: Bearer"}

// named replaces the names of the fields of an object by those that users know.
func named(doc string, o *object) string {
	for i, phrase := range phrases {
		doc = strings.ReplaceAll(doc, phrase, fmt.Sprintf("\x00%d\x00", i))
	}
	for _, f := range o.fields {
		if f.json != "" {
			doc = regexp.MustCompile(`(^|[^\[\w.<{"-])`+f.name+`\b`).ReplaceAllString(doc, "$1`"+f.json+"`")
		}
	}
	for i, phrase := range phrases {
		doc = strings.ReplaceAll(doc, fmt.Sprintf("\x00%d\x00", i), phrase)
	}
	return doc
}

// markdown renders a comment.
func markdown(doc string) string {
	var parser comment.Parser
	parser.LookupSym = func(string, string) bool { return false }
	printer := comment.Printer{HeadingLevel: 3}
	text := string(printer.Markdown(parser.Parse(doc)))
	// A name in brackets is a link in the documentation of Go.
	return fenced(strings.NewReplacer(`\[`, "[", `\]`, "]", "\\`", "`", `\_`, "_", `\<`, "<").Replace(text))
}

// fenced turns code that is set off by tabs into blocks that renderers colour.
func fenced(text string) string {
	var b strings.Builder
	code := false
	for line := range strings.Lines(text) {
		indented := strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "    ")
		if indented && !code {
			language := "caddyfile"
			if strings.HasPrefix(strings.TrimSpace(line), `{"`) {
				language = "json"
			}
			b.WriteString("```" + language + "\n")
		}
		if !indented && code && strings.TrimSpace(line) != "" {
			closed := strings.TrimRight(b.String(), "\n")
			b.Reset()
			b.WriteString(closed + "\n```\n\n")
		}
		if indented || strings.TrimSpace(line) != "" {
			code = indented
		}
		b.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "    "), "\t"))
	}
	if code {
		return strings.TrimRight(b.String(), "\n") + "\n```\n"
	}
	return b.String()
}

// values are what is to be typed, in a text.
var values = regexp.MustCompile(`\{[^{}]*\}|"[^" ]+"|<\w+>(?:[-.]<\w+>)+`)

// cell is a text in a table.
func cell(text string) string {
	text = values.ReplaceAllStringFunc(text, func(value string) string { return "`" + strings.Trim(value, `"`) + "`" })
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}
