package incidents

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// evidence is all that an operator has to find out what is wrong.
type evidence struct {
	// before and after are scrapes at the ends of the time in question.
	before, after series
	// log are the lines of that time.
	log []map[string]any
	// explained is what explain says of a call that a user complains about.
	explained map[string]any
	// findings are what doctor finds.
	findings []finding
}

// finding is one of doctor's.
type finding struct {
	ID    string `json:"id"`
	Where string `json:"where"`
	Found string `json:"found"`
}

// sign is something to look at, in the words of the page, and whether it is to be
// seen.
type sign struct {
	look string
	seen func(evidence) bool
}

// rises: the metrics that a selector selects have grown together, in the last
// minutes.
func rises(of string) sign {
	s := parseSelector(of)
	return sign{fmt.Sprintf("`sum(increase(%s[5m])) > 0`", of), func(e evidence) bool {
		return s.growth(e) > 0
	}}
}

// growth is how much all that is selected has grown together.
func (s selector) growth(e evidence) (grown float64) {
	before := s.values(e.before)
	for key, value := range s.values(e.after) {
		grown += value - before[key]
	}
	return grown
}

// mostlyLonger: most of what a histogram observed in the last minutes took longer
// than one of its bounds, in seconds. Some do on any machine that is busy.
func mostlyLonger(histogram, bound string) sign {
	all, within := parseSelector(histogram+"_count"), parseSelector(histogram+`_bucket{le="`+bound+`"}`)
	return sign{fmt.Sprintf("`sum(increase(%s_count[5m])) > 2 * sum(increase(%s_bucket{le=\"%s\"}[5m]))`", histogram, histogram, bound), func(e evidence) bool {
		return all.growth(e) > 2*within.growth(e)
	}}
}

// changes: one of the metrics that a selector selects is another than it was.
func changes(of string) sign {
	s := parseSelector(of)
	return sign{fmt.Sprintf("`changes(%s[5m]) > 0`", of), func(e evidence) bool {
		before := s.values(e.before)
		for key, value := range s.values(e.after) {
			if before[key] != value {
				return true
			}
		}
		return false
	}}
}

// is: one of the metrics that a selector selects has the value at present.
func is(of string, want float64) sign {
	s := parseSelector(of)
	return sign{fmt.Sprintf("`%s == %v`", of, want), func(e evidence) bool {
		for _, value := range s.values(e.after) {
			if value == want {
				return true
			}
		}
		return false
	}}
}

// logged: there is a line whose fields fit. They are pairs of a name and a
// pattern.
func logged(pairs ...string) sign {
	patterns := map[string]*regexp.Regexp{}
	var look []string
	for i := 0; i < len(pairs); i += 2 {
		patterns[pairs[i]] = regexp.MustCompile(pairs[i+1])
		look = append(look, fmt.Sprintf("`%s` %s", pairs[i], inWords(pairs[i+1])))
	}
	return sign{"a log line in which " + strings.Join(look, " and "), func(e evidence) bool {
		for _, line := range e.log {
			fits := true
			for name, pattern := range patterns {
				value, ok := line[name]
				fits = fits && ok && pattern.MatchString(fmt.Sprint(value))
			}
			if fits {
				return true
			}
		}
		return false
	}}
}

// inWords says what a pattern stands for: a whole value, any value, or one of some
// pieces of it.
func inWords(pattern string) string {
	whole, ok := strings.CutPrefix(pattern, "^")
	switch {
	case ok:
		return "is `" + strings.TrimSuffix(whole, "$") + "`"
	case pattern == ".":
		return "is not empty"
	default:
		return "contains `" + strings.ReplaceAll(pattern, "|", "` or `") + "`"
	}
}

// explains: explain says so of the call, at a path of its answer.
func explains(path, pattern string) sign {
	want := regexp.MustCompile(pattern)
	return sign{fmt.Sprintf("`explain` of the call: `%s` %s", path, inWords(pattern)), func(e evidence) bool {
		var at any = e.explained
		for _, name := range strings.Split(path, ".") {
			object, ok := at.(map[string]any)
			if !ok {
				return false
			}
			at = object[name]
		}
		text, isText := at.(string)
		if !isText {
			b, _ := json.Marshal(at)
			text = string(b)
		}
		return want.MatchString(text)
	}}
}

// finds: doctor has a finding.
func finds(id string) sign {
	return sign{fmt.Sprintf("`doctor` finds `%s`", id), func(e evidence) bool {
		for _, f := range e.findings {
			if f.ID == id {
				return true
			}
		}
		return false
	}}
}

// not: the sign is not to be seen.
func not(s sign) sign {
	return sign{"not: " + s.look, func(e evidence) bool { return !s.seen(e) }}
}

// seen reports whether all signs of a recipe are to be seen.
func (r recipe) seen(e evidence) bool {
	for _, s := range r.signs {
		if !s.seen(e) {
			return false
		}
	}
	return true
}
