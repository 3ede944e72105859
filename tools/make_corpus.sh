#!/usr/bin/env bash
# Writes data/kjv.txt, the demo's training text: the King James Bible out of the Debian package
# bible-kjv. Per chapter: a heading ("Genesis 1"), an empty line, the verses joined to one paragraph.
# Usage: tools/make_corpus.sh     (from anywhere; needs only bash, awk, coreutils and bible-kjv)
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly text=data/kjv.txt readme=data/README.txt
# Of package version 4.38 (Debian 12).
readonly expected_sha256=d33234850754fab0e2300857ee271779c3ae404640cfae0f2f767cbba6ca8758

if [[ -f $text && -f $readme ]] && grep -qF "$(sha256sum <"$text" | cut -d' ' -f1)" "$readme"; then
  echo "$text is there already ($(wc -c <"$text") bytes)"
  exit 0
fi

# Debian puts games and toys outside some users' PATH.
PATH="$PATH:/usr/bin:/usr/games"
mkdir -p data
rm -f "$readme"

# Each input line is "Ge1:1 In the beginning ...": abbreviated book, chapter, verse, text.
bible -f gen1:1-rev22:21 </dev/null | awk '
  BEGIN {
    abbreviations = "Ge Exo Lev Num Deu Josh Jdgs Ruth 1Sm 2Sm 1Ki 2Ki 1Chr 2Chr Ezra Neh Est Job Psa " \
      "Prv Eccl SSol Isa Jer Lam Eze Dan Hos Joel Amos Obad Jonah Mic Nahum Hab Zep Hag Zec Mal Mat " \
      "Mark Luke John Acts Rom 1Cor 2Cor Gal Eph Phi Col 1Th 2Th 1Tim 2Tim Titus Phmn Heb Jas 1Pet " \
      "2Pet 1Jn 2Jn 3Jn Jude Rev"
    titles = "Genesis,Exodus,Leviticus,Numbers,Deuteronomy,Joshua,Judges,Ruth,1 Samuel,2 Samuel," \
      "1 Kings,2 Kings,1 Chronicles,2 Chronicles,Ezra,Nehemiah,Esther,Job,Psalm,Proverbs," \
      "Ecclesiastes,Song of Solomon,Isaiah,Jeremiah,Lamentations,Ezekiel,Daniel,Hosea,Joel,Amos," \
      "Obadiah,Jonah,Micah,Nahum,Habakkuk,Zephaniah,Haggai,Zechariah,Malachi,Matthew,Mark,Luke," \
      "John,Acts,Romans,1 Corinthians,2 Corinthians,Galatians,Ephesians,Philippians,Colossians," \
      "1 Thessalonians,2 Thessalonians,1 Timothy,2 Timothy,Titus,Philemon,Hebrews,James,1 Peter," \
      "2 Peter,1 John,2 John,3 John,Jude,Revelation"
    num_books = split(abbreviations, abbreviation, " ")
    if (split(titles, title, ",") != num_books) exit 1
    for (i = 1; i <= num_books; ++i) title_of[abbreviation[i]] = title[i]
  }
  {
    reference = $1
    if (reference !~ /^[1-3]?[A-Za-z]+[0-9]+:[0-9]+$/) exit 1
    chapter = reference
    sub(/:.*/, "", chapter)
    verse = substr($0, length(reference) + 2)
    gsub(/  +/, " ", verse)
    if (chapter == previous) { printf " %s", verse; next }
    book = number = chapter
    sub(/[0-9]+$/, "", book)
    sub(/^[1-3]?[A-Za-z]+/, "", number)
    if (!(book in title_of)) exit 1
    printf "%s%s %d\n\n%s", (NR == 1 ? "" : "\n\n"), title_of[book], number, verse
    previous = chapter
  }
  END { print "" }
' >"$text.partial" || { echo "[corpus] the output of 'bible' is not as expected; is bible-kjv installed?" >&2; exit 1; }
mv "$text.partial" "$text"

sha256=$(sha256sum <"$text" | cut -d' ' -f1)
if [[ $sha256 != "$expected_sha256" ]]; then
  echo "[corpus] note: this text differs from the one our documents quote numbers for" >&2
  echo "  sha256 $sha256, documented $expected_sha256" >&2
fi

{
  cat <<END
kjv.txt: the Bible in the King James (Authorized) Version of 1611
=================================================================

Origin   Debian package bible-kjv $(dpkg-query -W -f '${Version}' bible-kjv 2>/dev/null || echo '(version unknown)'): the output of "bible -f gen1:1-rev22:21",
         with verse references taken out and the verses of a chapter joined
         (tools/make_corpus.sh).
Size     $(wc -c <"$text") bytes, $(grep -c '^[1-3A-Z].* [0-9]*$' "$text") chapters
sha256   $sha256
Licence  Public domain outside the United Kingdom, where the text is under Crown
         letters patent. The package's own statement follows.

END
  cat /usr/share/doc/bible-kjv/copyright 2>/dev/null || echo "(the package's copyright file is not installed)"
} >"$readme"
echo "wrote $text ($(wc -c <"$text") bytes) and $readme"
