// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <features.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/x509.h>
