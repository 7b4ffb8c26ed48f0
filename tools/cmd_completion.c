/* cmd_completion.c: the tables of commands, options and keys in; a script for bash, zsh or fish out. */
#include <string.h>

#include "passes/config/config.h"
#include "tools/cli_state.h"

static const char *dashes(const cli_option *o) { return o->name[1] ? "--" : "-"; }
static bool takes_key(const cli_option *o) { return !strcmp(o->name, "set"); }

/* The words of "a|b|c", separated by blanks. */
static void print_choices(const char *choices) {
  for (const char *p = choices; *p; p++) putchar(*p == '|' ? ' ' : *p);
}

/* Prints the words that may follow a key; false: it has none. */
static bool print_key_words(msc_key key) {
  const char *words = msc_key_words(key);
  if (words) print_choices(words);
  return words;
}

static void print_keys(const char *behind) {
  for (int key = 0; key < MSC_NUM_KEYS; key++) printf("%s%s%s", key ? " " : "", msc_key_name((msc_key)key), behind);
}

/* Text inside '...' of all three shells. */
static void print_quoted(const char *text, const char *quote) {
  for (const char *p = text; *p; p++)
    if (*p == '\'') fputs(quote, stdout);
    else putchar(*p);
}

/* ---- bash ---- */

static void print_bash_options(const cli_option *options) {
  for (const cli_option *o = options; o && o->name; o++) printf(" %s%s", dashes(o), o->name);
}

static void print_bash_values(const cli_option *options) {
  for (const cli_option *o = options; o && o->name; o++) {
    if (o->type == CLI_FLAG) continue;
    printf("        %s%s) words='", dashes(o), o->name);
    if (o->type == CLI_CHOICE) print_choices(o->arg);
    if (takes_key(o)) print_keys("=");
    printf("' ;;\n");
  }
}

static void print_bash_command(const cli_row *r) {
  printf("    %s)\n      words='", r->name);
  print_bash_options(r->command->options);
  print_bash_options(cli_common_options);
  printf("'\n      case $before in\n");
  print_bash_values(r->command->options);
  print_bash_values(cli_common_options);
  printf("        *) case $word in -*) ;; *) words= ;; esac ;;\n      esac ;;\n");
}

/* Prints the completion for bash, in which `=` is a word of its own. */
static void print_bash(const cli_row *rows) {
  printf("# completion of msc for bash: eval \"$(msc completion bash)\"\n"
         "_msc() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} key= words=\n"
         "  if [ \"$word\" = = ]; then key=$before word=\n"
         "  elif [ \"$before\" = = ]; then key=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
         "  case $key in\n");
  for (int key = 0; key < MSC_NUM_KEYS; key++) {
    if (!msc_key_words((msc_key)key)) continue;
    printf("    %s) words='", msc_key_name((msc_key)key));
    print_key_words((msc_key)key);
    printf("' ;;\n");
  }
  printf("  esac\n"
         "  if [ \"$COMP_CWORD\" = 1 ]; then words='");
  for (int i = 0; i < CLI_NUM_COMMANDS; i++)
    if (rows[i].command) printf("%s%s", i ? " " : "", rows[i].name);
  printf(" help'\n"
         "  elif [ -z \"$key\" ]; then case ${COMP_WORDS[1]} in\n");
  for (int i = 0; i < CLI_NUM_COMMANDS; i++)
    if (rows[i].command) print_bash_command(&rows[i]);
  printf("  esac; fi\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "  case ${COMPREPLY[0]} in *=) compopt -o nospace ;; esac\n"
         "}\n"
         "complete -o default -F _msc msc\n");
}

/* ---- zsh ---- */

static void print_zsh_options(const cli_option *options) {
  for (const cli_option *o = options; o && o->name; o++) {
    bool repeats = o->type == CLI_TEXTS || o->type == CLI_PAIRS;
    printf("\n        '%s%s%s[", repeats ? "*" : "", dashes(o), o->name);
    for (const char *p = o->help; *p; p++) { /* brackets and colons would end the text */
      if (strchr("[]:\\", *p)) putchar('\\');
      if (*p == '\'') fputs("'\\''", stdout);
      else putchar(*p);
    }
    putchar(']');
    if (o->type == CLI_CHOICE) {
      printf(":value:(");
      print_choices(o->arg);
      putchar(')');
    } else if (takes_key(o)) {
      printf(":key:(");
      print_keys("=");
      putchar(')');
    } else if (o->type != CLI_FLAG) {
      printf(":value:_files");
    }
    printf("' \\");
  }
}

static void print_zsh(const cli_row *rows) {
  printf("#compdef msc\n"
         "# completion of msc for zsh: eval \"$(msc completion zsh)\", after compinit\n"
         "_msc() {\n"
         "  local -a commands\n"
         "  commands=(\n");
  for (int i = 0; i < CLI_NUM_COMMANDS; i++) {
    if (!rows[i].command) continue;
    printf("    '%s:", rows[i].name);
    print_quoted(rows[i].help, "'\\''");
    printf("'\n");
  }
  printf("  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe command commands\n"
         "    return\n"
         "  fi\n"
         "  local name=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $name in\n");
  for (int i = 0; i < CLI_NUM_COMMANDS; i++) {
    if (!rows[i].command) continue;
    printf("    %s)\n      _arguments \\", rows[i].name);
    print_zsh_options(rows[i].command->options);
    print_zsh_options(cli_common_options);
    printf("\n        '*:file:_files' ;;\n");
  }
  printf("  esac\n"
         "}\n"
         "compdef _msc msc\n");
}

/* ---- fish ---- */

static void print_fish_options(const char *command, const cli_option *options) {
  for (const cli_option *o = options; o && o->name; o++) {
    printf("complete -c msc");
    if (command) printf(" -n '__fish_seen_subcommand_from %s'", command);
    printf(" -%c %s -d '", o->name[1] ? 'l' : 's', o->name);
    print_quoted(o->help, "\\'");
    printf("'");
    if (o->type != CLI_FLAG) printf(" -r");
    if (o->type == CLI_CHOICE || takes_key(o)) {
      printf(" -x -a '");
      if (takes_key(o)) print_keys("=");
      else print_choices(o->arg);
      printf("'");
    }
    printf("\n");
  }
}

static void print_fish(const cli_row *rows) {
  printf("# completion of msc for fish: msc completion fish | source\n");
  for (int i = 0; i < CLI_NUM_COMMANDS; i++) {
    if (!rows[i].command) continue;
    printf("complete -c msc -n __fish_use_subcommand -f -a %s -d '", rows[i].name);
    print_quoted(rows[i].help, "\\'");
    printf("'\n");
    print_fish_options(rows[i].name, rows[i].command->options);
  }
  print_fish_options(NULL, cli_common_options);
}

static int run_completion(cli *c) {
  static const struct {
    const char *shell;
    void (*print)(const cli_row *rows);
  } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
  cli_row rows[CLI_NUM_COMMANDS];
  cli_list_commands(rows);
  for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
    if (!strcmp(c->operands[0], shells[i].shell)) {
      shells[i].print(rows);
      return CLI_OK;
    }
  return cli_usage(c, "'%s' is none of bash|zsh|fish", c->operands[0]);
}

const cli_command cmd_completion = {"bash|zsh|fish", 1, 1, NULL, run_completion};
