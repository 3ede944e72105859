// The commands, one file each. Private to the layer.
#pragma once

#include <string>
#include <vector>

#include "trireme/cli/session.h"
#include "trireme/train/config_file.h"

namespace CLI {
class App;
}

namespace trireme {

/// Each adds its command to the tree; the command runs when the command line names it. `session`
/// and `overrides` outlive the tree. `overrides` are the `--section.key value` of the line.
void add_train_command(CLI::App& app, Session& session,
                       const std::vector<ConfigOverride>& overrides);
void add_program_command(CLI::App& app, Session& session,
                         const std::vector<ConfigOverride>& overrides);
void add_generate_command(CLI::App& app, Session& session);
void add_eval_command(CLI::App& app, Session& session);
void add_simulate_command(CLI::App& app, Session& session,
                          const std::vector<ConfigOverride>& overrides);
void add_plan_command(CLI::App& app, Session& session);
void add_predict_command(CLI::App& app, Session& session);
void add_calibrate_command(CLI::App& app, Session& session);
/// One line on session.err, whatever the message holds.
void print_error(const Session& session, std::string message);
/// convert: refused by name.
void add_unbuilt_commands(CLI::App& app);

}  // namespace trireme
