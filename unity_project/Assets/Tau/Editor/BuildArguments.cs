using System;
using System.Collections.Generic;
using System.IO;
using Tau.Core;

namespace Tau.Editor
{
    /// <summary>What the command line of the editor says about a build; flags of Unity's own are left alone.</summary>
    public sealed class BuildArguments
    {
        /// <summary>Names the player, or the folder for it.</summary>
        public const string OutputFlag = "-tauOutput";

        /// <summary>Asks for a dedicated server.</summary>
        public const string ServerFlag = "-tauServer";

        private BuildArguments(string output, bool server)
        {
            Output = output;
            Server = server;
        }

        /// <summary>The player or the folder for it; null where the command line does not say.</summary>
        public string Output { get; }

        /// <summary>Whether a dedicated server is asked for: a player without graphics and sound.</summary>
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
        /// The path of the player: what was asked for, with the platform's ending; inside a folder that was named, the
        /// player is called like the product.
        /// </summary>
        /// <param name="folder">Where the player goes if the command line does not say.</param>
        /// <param name="product">The player's name without ending.</param>
        /// <param name="ending">The platform's, with its dot.</param>
        public string Player(string folder, string product, string ending)
        {
            string path = Output ?? folder;
            bool named = path.EndsWith(ending, StringComparison.OrdinalIgnoreCase);
            return Path.GetFullPath(named ? path : Path.Combine(path, product + ending));
        }
    }
}
