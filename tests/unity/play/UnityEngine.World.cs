using System;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using UnityEngine.SceneManagement;

namespace UnityEngine
{
    /// <summary>
    /// The engine's main loop, after Unity's manual, "Order of execution for event functions": Awake and OnEnable when
    /// a component comes to life, Start before its first frame, FixedUpdate and physics, Update, what async code has
    /// posted, and at the end of the frame what was to be destroyed. An exception in a script is logged; the loop goes
    /// on.
    /// </summary>
    internal static class World
    {
        private const BindingFlags Own =
            BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic | BindingFlags.DeclaredOnly;

        private const float PhysicsSeconds = 0.02f;

        private static readonly Dictionary<(Type, string), MethodInfo> Known =
            new Dictionary<(Type, string), MethodInfo>();

        private static readonly List<Object> Doomed = new List<Object>();

        /// <summary>Called in every FixedUpdate; ML-Agents' academy steps with it. Null: nobody steps.</summary>
        public static Action Stepper { get; set; }

        /// <summary>Begins anew: one empty scene.</summary>
        public static void Reset()
        {
            Doomed.Clear();
            Stepper = null;
            SceneManager.Reset();
        }

        /// <summary>All game objects of all scenes.</summary>
        public static GameObject[] All()
        {
            return SceneManager.All.SelectMany(scene => scene.Roots).SelectMany(Below).ToArray();
        }

        /// <summary>An object and all that hang under it, parents first.</summary>
        public static IEnumerable<GameObject> Below(GameObject host)
        {
            yield return host;
            foreach (GameObject each in host.transform.Children.SelectMany(child => Below(child.gameObject)))
            {
                yield return each;
            }
        }

        /// <summary>One frame.</summary>
        /// <param name="steps">Physics steps in it: none in a fast frame, several in a slow one.</param>
        /// <param name="runPosted">Runs what async code has posted to the main thread.</param>
        public static void Frame(int steps, Action runPosted)
        {
            for (var i = 0; i < steps; i++)
            {
                Start();
                Tell("FixedUpdate");
                Guard(() => Stepper?.Invoke());
                Array.ForEach(Live<Rigidbody>(), body => body.Move(PhysicsSeconds));
            }
            Start();
            Tell("Update");
            runPosted();
            DestroyDoomed();
            SceneManager.CloseLeaving();
        }

        /// <summary>Calls a method without parameters of every living, enabled component.</summary>
        public static void Tell(string message)
        {
            foreach (Component part in Live<Component>().Where(part => !part.IsDestroyed && IsSwitchedOn(part)))
            {
                Call(part, message);
            }
        }

        /// <summary>The components of a type in active objects.</summary>
        public static T[] Live<T>()
            where T : Component
        {
            return All().Where(each => each.activeInHierarchy).SelectMany(each => each.Parts).OfType<T>().ToArray();
        }

        /// <summary>Tells an object's components, and those below, whether they are active now.</summary>
        public static void Refresh(GameObject host)
        {
            foreach (Component part in Below(host).ToArray().SelectMany(each => each.Parts))
            {
                Refresh(part);
            }
        }

        /// <summary>Wakes a component that became active, and tells it if it was switched.</summary>
        public static void Refresh(Component part)
        {
            if (part.gameObject.activeInHierarchy && !part.IsAwake)
            {
                part.IsAwake = true;
                Call(part, "Awake");
            }
            RefreshSwitch(part);
        }

        /// <summary>Calls OnEnable or OnDisable if the component was switched since.</summary>
        public static void RefreshSwitch(Component part)
        {
            bool on = part.IsAwake && part.gameObject.activeInHierarchy && IsSwitchedOn(part);
            if (on != part.IsOn)
            {
                part.IsOn = on;
                Call(part, on ? "OnEnable" : "OnDisable");
            }
        }

        /// <summary>Destroys at the end of the frame.</summary>
        public static void DestroyLater(Object target)
        {
            Doomed.Add(target);
        }

        /// <summary>
        /// Destroys an object with all that hang under it: all of them hear OnDisable first, then OnDestroy, which a
        /// component that never woke does not hear.
        /// </summary>
        public static void DestroyNow(Object target)
        {
            if (target == null)
            {
                return;
            }
            if (target is Component part)
            {
                Destroy(new[] { part });
                part.gameObject.Remove(part);
                return;
            }
            var host = (GameObject)target;
            GameObject[] all = Below(host).ToArray();
            Destroy(all.SelectMany(each => each.Parts).ToArray());
            host.transform.Detach();
            Array.ForEach(all, each => each.IsDestroyed = true);
        }

        /// <summary>Closes a scene: destroys everything in it.</summary>
        public static void Close(SceneState scene)
        {
            scene.IsLoaded = false;
            foreach (GameObject root in scene.Roots.ToArray())
            {
                DestroyNow(root);
            }
            SceneManager.Remove(scene);
        }

        /// <summary>Runs something; an exception is logged.</summary>
        public static void Guard(Action action)
        {
            try
            {
                action();
            }
            catch (Exception error)
            {
                Debug.LogException(error);
            }
        }

        private static void Destroy(Component[] parts)
        {
            foreach (Component part in parts.Where(part => part.IsOn))
            {
                part.IsOn = false;
                Call(part, "OnDisable");
            }
            foreach (Component part in parts)
            {
                if (part.IsAwake)
                {
                    Call(part, "OnDestroy");
                }
                part.IsDestroyed = true;
            }
        }

        private static void DestroyDoomed()
        {
            Object[] doomed = Doomed.ToArray();
            Doomed.Clear();
            Array.ForEach(doomed, DestroyNow);
        }

        private static void Start()
        {
            foreach (Component part in Live<Component>().Where(part => !part.IsStarted && IsSwitchedOn(part)))
            {
                part.IsStarted = true;
                Call(part, "Start");
            }
        }

        private static bool IsSwitchedOn(Component part)
        {
            return !(part is Behaviour behaviour) || behaviour.enabled;
        }

        private static void Call(Component part, string message)
        {
            MethodInfo method = Find(part.GetType(), message);
            if (method != null)
            {
                Guard(() => ((Action)method.CreateDelegate(typeof(Action), part))());
            }
        }

        /// <summary>The method of the most derived class that has one, as Unity finds it: public or private.</summary>
        private static MethodInfo Find(Type type, string message)
        {
            if (!Known.TryGetValue((type, message), out MethodInfo method))
            {
                for (Type each = type; each != null && method == null; each = each.BaseType)
                {
                    method = each.GetMethod(message, Own, null, Type.EmptyTypes, null);
                }
                Known[(type, message)] = method;
            }
            return method;
        }
    }
}
