// SPDX-License-Identifier: Apache-2.0
//
// The files of the folder Sources/MartletConsole/Web as bytes of the program. The compiler reads the files, so the console
// needs no build step, and a changed file compiles this one again.

#include "console_files.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char api_js[] = {
#embed "../../Sources/MartletConsole/Web/api.js"
};
static const unsigned char app_js[] = {
#embed "../../Sources/MartletConsole/Web/app.js"
};
static const unsigned char audience_js[] = {
#embed "../../Sources/MartletConsole/Web/audience.js"
};
static const unsigned char composer_js[] = {
#embed "../../Sources/MartletConsole/Web/composer.js"
};
static const unsigned char condition_js[] = {
#embed "../../Sources/MartletConsole/Web/condition.js"
};
static const unsigned char devices_js[] = {
#embed "../../Sources/MartletConsole/Web/devices.js"
};
static const unsigned char dom_js[] = {
#embed "../../Sources/MartletConsole/Web/dom.js"
};
static const unsigned char format_js[] = {
#embed "../../Sources/MartletConsole/Web/format.js"
};
static const unsigned char groups_js[] = {
#embed "../../Sources/MartletConsole/Web/groups.js"
};
static const unsigned char icon_svg[] = {
#embed "../../Sources/MartletConsole/Web/icon.svg"
};
static const unsigned char index_html[] = {
#embed "../../Sources/MartletConsole/Web/index.html"
};
static const unsigned char keys_js[] = {
#embed "../../Sources/MartletConsole/Web/keys.js"
};
static const unsigned char live_js[] = {
#embed "../../Sources/MartletConsole/Web/live.js"
};
static const unsigned char log_js[] = {
#embed "../../Sources/MartletConsole/Web/log.js"
};
static const unsigned char draft_js[] = {
#embed "../../Sources/MartletConsole/Web/draft.js"
};
static const unsigned char messages_js[] = {
#embed "../../Sources/MartletConsole/Web/messages.js"
};
static const unsigned char message_js[] = {
#embed "../../Sources/MartletConsole/Web/message.js"
};
static const unsigned char overview_js[] = {
#embed "../../Sources/MartletConsole/Web/overview.js"
};
static const unsigned char password_js[] = {
#embed "../../Sources/MartletConsole/Web/password.js"
};
static const unsigned char people_js[] = {
#embed "../../Sources/MartletConsole/Web/people.js"
};
static const unsigned char plot_js[] = {
#embed "../../Sources/MartletConsole/Web/plot.js"
};
static const unsigned char projects_js[] = {
#embed "../../Sources/MartletConsole/Web/projects.js"
};
static const unsigned char reports_js[] = {
#embed "../../Sources/MartletConsole/Web/reports.js"
};
static const unsigned char signin_js[] = {
#embed "../../Sources/MartletConsole/Web/signin.js"
};
static const unsigned char style_css[] = {
#embed "../../Sources/MartletConsole/Web/style.css"
};
static const unsigned char topics_js[] = {
#embed "../../Sources/MartletConsole/Web/topics.js"
};

#define FILE(name, bytes) {name, bytes, sizeof bytes}

static const martlet_console_file_t files[] = {
    FILE("api.js", api_js),
    FILE("app.js", app_js),
    FILE("audience.js", audience_js),
    FILE("composer.js", composer_js),
    FILE("condition.js", condition_js),
    FILE("devices.js", devices_js),
    FILE("dom.js", dom_js),
    FILE("format.js", format_js),
    FILE("groups.js", groups_js),
    FILE("icon.svg", icon_svg),
    FILE("index.html", index_html),
    FILE("keys.js", keys_js),
    FILE("live.js", live_js),
    FILE("log.js", log_js),
    FILE("draft.js", draft_js),
    FILE("message.js", message_js),
    FILE("messages.js", messages_js),
    FILE("overview.js", overview_js),
    FILE("password.js", password_js),
    FILE("people.js", people_js),
    FILE("plot.js", plot_js),
    FILE("projects.js", projects_js),
    FILE("reports.js", reports_js),
    FILE("signin.js", signin_js),
    FILE("style.css", style_css),
    FILE("topics.js", topics_js),
};

const size_t martlet_console_file_count = sizeof files / sizeof files[0];

martlet_console_file_t martlet_console_file(size_t index) {
    return files[index];
}
