/* keys.c: the rows of config.def. */
#include "passes/config/config.h"
#include "passes/config/rows.h"

const msc_config_row msc_config_rows[MSC_NUM_KEYS] = {
#define KEY(name, type, range, fallback, supported, meaning) {#name, MSC_CONFIG_##type, range, fallback, supported, \
  meaning},
#include "passes/config/config.def"
#undef KEY
};

const char *msc_key_name(msc_key key) { return msc_config_rows[key].name; }
const char *msc_key_meaning(msc_key key) { return msc_config_rows[key].meaning; }
