// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <features.h>
#include <expat.h>

// Libraries before 2.6.0 lack the function, unless an update of their system brought it.
extern XML_Bool XML_SetReparseDeferralEnabled(XML_Parser parser, XML_Bool enabled)
    __attribute__((weak));

/// Has the parser tell of each piece of markup with its last byte, and not with later ones.
static inline void martlet_expat_parse_at_once(XML_Parser parser) {
    if (XML_SetReparseDeferralEnabled) XML_SetReparseDeferralEnabled(parser, XML_FALSE);
}
