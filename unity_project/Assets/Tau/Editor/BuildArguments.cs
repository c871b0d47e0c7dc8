using System;
using System.Collections.Generic;
using System.IO;
using Tau.Core;

namespace Tau.Editor
{
    /// <summary>A build's options from the editor's command line; Unity's own flags are ignored.</summary>
    public sealed class BuildArguments
    {
        /// <summary>Flag for the path of the player, or of its folder.</summary>
        public const string OutputFlag = "-tauOutput";

        /// <summary>Flag for a dedicated server.</summary>
        public const string ServerFlag = "-tauServer";

        private BuildArguments(string output, bool server)
        {
            Output = output;
            Server = server;
        }

        /// <summary>Path of the player or of its folder; null if not given.</summary>
        public string Output { get; }

        /// <summary>Whether to build a dedicated server: a player without graphics and sound.</summary>
        public bool Server { get; }

        /// <summary>Reads a command line.</summary>
        /// <exception cref="TauException">A flag without its value.</exception>
        public static BuildArguments Parse(IReadOnlyList<string> args)
        {
            string output = null;
            bool server = false;
            for (int i = 0; i < args.Count; i++)
            {
                if (args[i] == ServerFlag)
                {
                    server = true;
                }
                else if (args[i] == OutputFlag)
                {
                    string value = i + 1 < args.Count ? args[i + 1] : string.Empty;
                    if (value.Length == 0 || value.StartsWith("-", StringComparison.Ordinal))
                    {
                        throw new TauException(
                            OutputFlag + " needs a path after it: the player to write, or its folder.");
                    }
                    output = value;
                    i++;
                }
            }
            return new BuildArguments(output, server);
        }

        /// <summary>
        /// The path of the player: the requested path with the platform's suffix. In a given folder, the player has the
        /// product's name.
        /// </summary>
        /// <param name="folder">Default folder of the player.</param>
        /// <param name="product">The player's name without suffix.</param>
        /// <<param name="ending">The platform's suffix, with its dot.</param>
        public string Player(string folder, string product, string ending)
        {
            string path = Output ?? folder;
            bool named = path.EndsWith(ending, StringComparison.OrdinalIgnoreCase);
            return Path.GetFullPath(named ? path : Path.Combine(path, product + ending));
        }
    }
}
