#include "trireme/report/html_report.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include "trireme/report/svg.h"

namespace trireme {
namespace {

constexpr std::string_view kPageStyle =
    "body{margin:0;background:#f1f4f7;color:#1f2933;"
    "font:16px/1.5 'DejaVu Sans',Verdana,Helvetica,Arial,sans-serif}"
    "main{max-width:1320px;margin:0 auto;padding:24px 20px 48px}"
    "h1{font-size:26px;margin:0 0 4px}h2{font-size:19px;margin:0 0 6px}"
    "p{margin:0 0 12px;color:#3e4c59;max-width:80em}code{font-size:14px}"
    ".facts{display:flex;flex-wrap:wrap;gap:12px;margin:18px 0}"
    ".fact,section{background:#fff;border:1px solid #d9e0e7;border-radius:6px}"
    ".fact{padding:10px 16px}.fact b{display:block;font-size:20px}"
    ".fact span{color:#52606d;font-size:13px}"
    "section{padding:16px 18px;margin:0 0 18px;overflow-x:auto}"
    "svg{display:block;width:100%;height:auto;min-width:640px}"
    "table{border-collapse:collapse;font-size:14px;margin-top:8px}"
    "th,td{padding:5px 14px 5px 0;text-align:left;border-bottom:1px solid #e4e9ee}"
    "th{color:#52606d;font-weight:600}.right{text-align:right;white-space:nowrap}"
    ".marked td{background:#e3f1e7;font-weight:bold}"
    "@media(max-width:1000px){body{font-size:14px}main{padding:16px 10px}section{padding:12px}"
    "table{font-size:11px}th,td{padding-right:6px}}"
    "pre{font-size:13px;line-height:1.45;white-space:pre-wrap;margin:0}";

/// Within a page an SVG picture needs no name space.
std::string inline_svg(std::string svg) {
  constexpr std::string_view kNameSpace = " xmlns=\"http://www.w3.org/2000/svg\"";
  if (const std::size_t at = svg.find(kNameSpace); at != std::string::npos)
    svg.erase(at, kNameSpace.size());
  return svg;
}

bool suits_a_number_column(std::string_view text) {
  return text.empty() || (std::isdigit(static_cast<unsigned char>(text.front())) != 0 ||
                          text.front() == '-' || text.front() == '+');
}

std::string table_row(std::string_view cell, const std::vector<std::string>& cells,
                      const std::vector<bool>& is_right, bool is_marked) {
  std::string row = is_marked ? "<tr class=\"marked\">" : "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    row += fmt::format("<{0}{1}>{2}</{0}>", cell, is_right.at(i) ? " class=\"right\"" : "",
                       xml_text(cells[i]));
  }
  return row + "</tr>\n";
}

std::string table_html(const HtmlTable& table) {
  std::vector<bool> is_right(table.header.size(), !table.rows.empty());
  for (const std::vector<std::string>& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      is_right.at(i) = is_right.at(i) && suits_a_number_column(row[i]);
  }
  std::string html = "<table>\n" + table_row("th", table.header, is_right, false);
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    html += table_row("td", table.rows[i], is_right, table.marked_row == i);
  return html + "</table>\n";
}

std::string section_html(const HtmlSection& section) {
  std::string html = "<section>\n";
  if (!section.heading.empty()) html += "<h2>" + xml_text(section.heading) + "</h2>\n";
  if (!section.text.empty()) html += "<p>" + xml_text(section.text) + "</p>\n";
  html += inline_svg(section.svg);
  if (!section.table.header.empty()) html += table_html(section.table);
  if (!section.plain.empty()) html += "<pre>" + xml_text(section.plain) + "</pre>\n";
  return html + "</section>\n";
}

}  // namespace

std::string html_report(const HtmlReport& report) {
  std::string facts;
  for (const auto& [name, value] : report.facts) {
    facts += fmt::format("<div class=\"fact\"><span>{}</span><b>{}</b></div>\n", xml_text(name),
                         xml_text(value));
  }
  std::string sections;
  for (const HtmlSection& section : report.sections) sections += section_html(section);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n"
      "<p><code>{2}</code></p>\n<div class=\"facts\">\n{3}</div>\n{4}</main>\n</body>\n</html>\n",
      xml_text(report.title), kPageStyle, xml_text(report.subtitle), facts, sections);
}

}  // namespace trireme
