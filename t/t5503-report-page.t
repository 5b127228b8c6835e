#!/bin/bash
# ddp report --html: the page is whole, needs nothing from elsewhere, takes no markup from a record, and stays small;
# its file is replaced at once, or not at all. Where there is a Chromium, it has nothing to complain of.
source "$(dirname "$0")/lib/tap.sh"
export TZ=UTC LC_ALL=C.UTF-8
data=$top_srcdir/t/data/record
page() { run "$top_builddir/ddp" report --html "$tmp/page.html" "$@"; }

cat >"$tmp/check" <<'EOF2'
"""check PAGE: what is wrong in it; else its tags that are figures and pictures, and how often each, on a line."""
import collections, html.parser, re, sys
class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.seen, self.wrong, self.words = [], collections.Counter(), [], ""
    def handle_starttag(self, tag, attrs, is_closed=False):
        self.seen[tag] += 1
        if tag in ("script", "iframe", "object", "embed", "img", "form", "a", "base"):
            self.wrong.append(f"has <{tag}>")
        for name, value in attrs:
            if name.startswith("on") or name in ("src", "srcset", "action") or name == "href" and value != "data:,":
                self.wrong.append(f"<{tag}> has {name}")
            if "nan" in (value or "") or "inf" in (value or ""):
                self.wrong.append(f"<{tag}> {name} is {value[:60]}")
        if tag not in ("meta", "link") and not is_closed:
            self.open.append(tag)
    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs, True)
    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes something else")
    def handle_data(self, text):
        self.words += text
page, text = Page(), open(sys.argv[1], encoding="utf-8").read()
page.feed(text)
if page.open or not text.endswith("</html>\n"):
    page.wrong.append("is not closed")
if re.search(r"url\(|@import|https?:", text):
    page.wrong.append("names something elsewhere")
print("\n".join(page.wrong) or " ".join(f"{tag}={page.seen[tag]}" for tag in ("figure", "svg", "title", "details")))
EOF2
check() { python3 "$tmp/check" "$tmp/page.html"; }

page "$data/killed.jsonl"
is "a page of one run" "$rc:$out$err" "0:"
is "... is whole, and every picture has a title" "$(check)" "figure=6 svg=8 title=9 details=1"
text=$(<"$tmp/page.html")
like "... who" "$text" "<h1>train, job 1301\.0: done</h1>"
like "... goodput" "$text" "<dt>goodput</dt><dd>74\.2 %</dd>"
like "... its classes" "$text" "</i>lost to a failure</th><td class=\"n\">4 min 40 s</td><td class=\"n\">18\.3 %</td>"
like "... what happened" "$text" "<td class=\"failure\">failure</td><td>rank 5 \(n2\) died \(signal 9, Killed\)</td>"
like "... on the axis of steps, too" "$text" "<h2>Loss</h2>.*<b class=\"failure\" style=\"left:32\.5%\">F</b>"
like "... as a line there" "$text" "<path class=\"mark failure\" d=\"M325\.0 0V200\"/>"
like "... both themes, and paper" "$text" "prefers-color-scheme:dark.*@media print"
again() { grep -o '<path class="again"[^>]*d="[^"]' "$tmp/page.html" | wc -l; }
is "... steps that were done again have lines of their own" "$(again)" 4
page "$data"/{steady,straggler,killed}.jsonl
is "a page of three" "$rc:$out$err:$(check)" "0::figure=10 svg=28 title=17 details=3"
like "... of which each has its line" "$(<"$tmp/page.html")" "stroke:var\(--r0.*stroke:var\(--r1.*stroke:var\(--r2"
like "... one rank was slow" "$(grep -c 'fill:var(--h3)" d="M' "$tmp/page.html")" "^[1-9]"
page "$data/cut.jsonl"
like "of a run that goes on" "$rc:$(check)" "^0:figure=6 "
head -n 1 "$data/cut.jsonl" >"$tmp/begun"
page "$tmp/begun"
is "of one that has only begun" "$rc:$(check)" "0:figure=0 svg=2 title=3 details=1"

# ---- a record that is not meant well ----
evil='<script>alert(1)<\/script>\\"'"'"'><img src=x onerror=alert(1)>\&amp;'
sed "s/\"job\": \"[^\"]*\"/\"job\": \"$evil\"/; s/\"program\": \"[^\"]*\"/\"program\": \"$evil\"/; s/\"n1\"/\"$evil\"/
    s/\"text\": \"[^\"]*\"/\"text\": \"$evil\"/; s/\"note\": \"[^\"]*\"/\"note\": \"$evil\"/
    s/\"from\": \"[^\"]*\"/\"from\": \"$evil\"/; s/\"item\": \"[^\"]*\"/\"item\": \"$evil\"/
    s/\"signal\": \"[^\"]*\"/\"signal\": \"$evil\"/; s/\"version\": \"[^\"]*\"/\"version\": \"$evil\"/
    s/\"device\": \"[^\"]*\"/\"device\": \"$evil\"/; s/\"how\": \"done\"/\"how\": \"$evil\"/" \
    "$data/killed.jsonl" >"$tmp/<b onload=\"x\">&'.jsonl"
page "$tmp/<b onload=\"x\">&'.jsonl"
is "no text of a record is markup" "$rc:$out$err:$(check)" "0::figure=6 svg=8 title=9 details=1"
page "$tmp/<b onload=\"x\">&'.jsonl" "$data/steady.jsonl"
like "... nor beside another's" "$rc:$(check)" "^0:figure="
sed 's/"loss": [0-9.]*/"loss": 1e308/; s/"lr": [0-9.e-]*/"lr": 1e-320/
    s/"efficiency": [0-9][0-9.]*/"efficiency": -1e300/
    s/"items": [0-9]*/"items": 9000000000000000000/; s/"step": [0-9]*/"step": 9223372036854775807/' \
    "$data/steady.jsonl" >"$tmp/great"
page "$tmp/great"
like "numbers beyond any scale" "$rc:$(check)" "^0:figure="
sed 's/"wall_s": [0-9.]*/"wall_s": 1e12/; s/"t": [0-9.]*/"t": 0/; s/"steps": [0-9]*/"steps": 0/' \
    "$data/steady.jsonl" >"$tmp/great"
page "$tmp/great"
like "... or within none" "$rc:$(check)" "^0:figure="
awk '/"interval"/ && ++n % 3 == 0 { sub(/"steps": [0-9]+/, "\"steps\": 0") }
    /"interval"/ { sub(/"loss": [0-9.]+/, "\"loss\": " (n % 2 ? "1e-310" : "1e29")) } { print }' \
    "$data/steady.jsonl" >"$tmp/great"
page "$tmp/great"
like "... or some alone" "$rc:$(check)" "^0:figure="

# ---- long ones ----
awk '/"interval"/ && !/"steps": 1,/ { sub(/.*"loss": [0-9.]+/, ""); rest[n++] = $0 }
    /"start"|"train"/ { print }
    END { for (i = 1; i <= 20000; i++)
        print "{\"event\": \"interval\", \"t\": " 1795420804 + 25 * i ", \"step\": " 50 * i \
            ", \"steps\": 50, \"wall_s\": 24.5, \"loss\": " 2 + rand() rest[i % n] }
    ' "$data/straggler.jsonl" >"$tmp/long"
run_deadline=200 page "$tmp"/long{,,,,,,,}
like "eight long runs" "$rc:$(check)" "^0:figure=20 "
like "... as means, and bands from least to most" "$(grep -o 'class="band"[^>]*d="M' "$tmp/page.html" | wc -l)" "^[1-9]"
ok "... on less than a megabyte" test "$(stat -c %s "$tmp/page.html")" -lt 1000000

# ---- the file ----
is "nothing else is left" "$(cd "$tmp" && ls page.html*)" page.html
cp "$data/steady.jsonl" "$tmp/mine"
run "$top_builddir/ddp" report "$tmp/mine" --html "$tmp/mine"
like "a record is not overwritten" "$rc:$err" "^2:ddp report: --html: .*/mine is a record to read: name another file$"
ok "... and is as it was" cmp "$data/steady.jsonl" "$tmp/mine"
run "$top_builddir/ddp" report "$tmp/mine" --html "$tmp"
like "nor a folder" "$rc:$err" "^2:ddp report: --html: .* is no file: name one$"
run "$top_builddir/ddp" report "$tmp/mine" --html "$tmp/no/page"
like "a folder that is not there" "$rc:$err" "^1:ddp report: --html: .*/no/page: No such file"
echo old >"$tmp/old"
run bash -c 'ulimit -f 4; trap "" XFSZ; exec "$@"' - "$top_builddir/ddp" report "$tmp/mine" --html "$tmp/old"
like "a page that cannot be written whole" "$rc:$err" \
    "^1:ddp report: --html: writing .*/old: File too large \\(ulimit -f\\)$"
is "... leaves what was there, and nothing else" "$(cat "$tmp"/old*)" old

# ---- a browser ----
browser() {
    run_deadline=60 run chromium --headless --no-sandbox --disable-gpu --user-data-dir="$tmp/chromium" \
        --enable-logging=stderr "$@"
}
if ! command -v chromium >/dev/null; then
    diag "no chromium: the page was not opened in a browser"
    done_testing
fi
page "$tmp/<b onload=\"x\">&'.jsonl" "$data/killed.jsonl"
browser --dump-dom "file://$tmp/page.html"
is "a browser opens it without a word" "$rc:$(grep -c CONSOLE <<<"$err"):${out: -7}" "0:0:</html>"
sed -i 's,</body>,<script>1</script>&,' "$tmp/page.html"
browser --dump-dom "file://$tmp/page.html"
like "... and would run no script" "$err" "CONSOLE.*Content Security Policy"
done_testing
